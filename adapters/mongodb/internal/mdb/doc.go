// Package mdb connects to MongoDB and explains its errors.
package mdb
