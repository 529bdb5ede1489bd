from pgwire_gateway.listener.cancel import CancelRegistry


class Statement:
    cancelled = 0

    def cancel(self):
        self.cancelled += 1


def test_a_request_with_the_right_key_cancels():
    registry, statement = CancelRegistry(), Statement()
    key = registry.add(7, statement)
    assert len(key) == 4
    assert registry.cancel(7, key)
    assert statement.cancelled == 1


def test_a_request_with_a_wrong_key_or_process_does_nothing():
    registry, statement = CancelRegistry(), Statement()
    key = registry.add(7, statement, key_bytes=32)
    assert not registry.cancel(7, bytes(32))
    assert not registry.cancel(7, key[:4])
    assert not registry.cancel(8, key)
    assert statement.cancelled == 0


def test_the_key_of_an_ended_session_means_nothing():
    registry, statement = CancelRegistry(), Statement()
    key = registry.add(7, statement)
    registry.remove(7)
    assert not registry.cancel(7, key)
