// Package outboxframework is for programs that come from the JDBC outbox framework: its settings with their
// defaults ([Settings]), and its metrics exporter ([MetricsExporter], [Export]). Publishing is outbox.NewClient with the layout
// "outbox-framework", transactions are outbox.InTx, and listeners are package handlers/listeners; see
// docs/migrate/outbox-framework.md. A new program needs none of this package.
package outboxframework
