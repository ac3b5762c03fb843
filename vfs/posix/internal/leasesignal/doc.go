// Package leasesignal receives the kernel's signals about broken leases
// (fcntl(2), F_SETLEASE) on one thread.
//
//	a lease is broken ─signal─▶ the Watcher's thread ─signalfd─▶ notifyFD
//
// The signals are sent only to that thread and blocked only in it, so no signal
// handler is involved. The package must not know files, objects or who holds a
// lease: SetOwner is called before a lease is taken, and the caller checks
// whether the lease on a reported descriptor is indeed broken.
package leasesignal
