-- A role for monitoring: it may look at the dead-letter queue and at the console's ledger, and write nothing.
CREATE ROLE dlq_monitor LOGIN;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO dlq_monitor;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO dlq_monitor;
