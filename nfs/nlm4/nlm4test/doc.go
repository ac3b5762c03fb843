// Package nlm4test has an in-memory lock manager for client tests. Tests can make
// it fail: lose calls and replies, restart, and reject calls.
//
// The package must not know clients.
package nlm4test
