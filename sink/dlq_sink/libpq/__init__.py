"""Postgres connection strings as libpq takes them: parsing, precedence, passwords, TLS, sockets. Knows no table."""
