// Package nlm4test has a lock manager in memory, for tests of clients. Tests make
// it fail: lose calls and replies, restart, and refuse.
//
// The package must not know the clients.
package nlm4test
