// Package vfstest is a conformance suite for every vfs.FS, local or behind a
// network.
//
//	backend's test ──Backend──▶ Run ──▶ tests ──testFS──▶ vfs.FS
//
// The tests know only the interface and Backend's fields. They require RFC 1813's semantics if it
// is definite, and otherwise the behaviour of Linux's server.
package vfstest
