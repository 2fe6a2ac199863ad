// Package logging keeps failures that last from filling the log.
package logging
