// Package settling writes the progress of all lanes in one transaction, at a bounded rate.
package settling
