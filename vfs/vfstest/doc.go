// Package vfstest is a conformance suite for every vfs.FS, local or behind a
// network.
//
//	backend's test ──Backend──▶ Run ──▶ tests ──rig──▶ vfs.FS
//
// The tests know only the interface and the fields of Backend. They require the
// semantics of RFC 1813 if it is definite, and otherwise the behaviour of
// Linux's server.
package vfstest
