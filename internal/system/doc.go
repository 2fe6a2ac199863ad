// Package system has the tests of the whole relay as a program embeds it: package outrider against real databases and brokers. The
// built program against faults of servers and networks is tested in internal/faults.
package system
