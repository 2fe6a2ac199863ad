// Package settling writes progress: all that is due, in one transaction, not too often.
package settling
