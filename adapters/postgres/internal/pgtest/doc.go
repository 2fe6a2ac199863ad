// Package pgtest has what the tests of the PostgreSQL adapter's packages share.
package pgtest
