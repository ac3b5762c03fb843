// Package vfstest is one conformance suite for everything that is a vfs.FS,
// near or behind a network.
//
//	backend's test ──Backend──▶ Run ──▶ tests ──rig──▶ vfs.FS
//
// The tests know nothing of a backend but the interface and what Backend
// says. What they want is RFC 1813's semantics where it is definite, else
// what Linux's own server does.
package vfstest
