"""Settings with which Django's own test runner works on the server that libpq's variables name."""

from django.db.backends.postgresql.features import DatabaseFeatures

DATABASES = {
    alias: {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": f"django_{alias}",
        "TEST": {"NAME": f"test_django_{alias}"},
    }
    for alias in ("default", "other")
}

# The servers are built without ICU, whose Swedish collation Django would use.
DatabaseFeatures.test_collations = {
    "deterministic": "C",
    "non_default": "POSIX",
    "swedish_ci": "POSIX",
    "virtual": "POSIX",
}

DEFAULT_AUTO_FIELD = "django.db.models.AutoField"

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

SECRET_KEY = "for tests alone"  # noqa: S105

USE_TZ = False
