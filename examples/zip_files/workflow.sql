-- The workflow zip_files: packs a directory tree into an archive.
--
-- Its input is {"source": DIRECTORY, "target": DIRECTORY}; the archive and
-- what the steps leave for each other go into the target.
--
-- psql [-v lease=INTERVAL] -f workflow.sql

\if :{?lease}
\else
	\set lease '30 s'
\endif

SELECT pgqrs_create_workflow('zip_files', visibility_timeout => :'lease');
