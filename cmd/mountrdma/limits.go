package main

import "time"

// Limits of our own.
const (
	// defaultTimeout keeps every failure below the ten seconds after which
	// people believe that a program hangs.
	defaultTimeout = 8 * time.Second

	// minTimeout is a way to the other side of the world and back, in an
	// MPA start-up, a call, and a moment to think.
	minTimeout = 100 * time.Millisecond

	// bridgePatience is how long calls of bridge wait for a server that is
	// away: longer than a restart takes, and well below the minute after which
	// clients repeat a call.
	bridgePatience = 30 * time.Second

	// goodbyeTime is how long a server may take to hear that its exports
	// are not used any more. It has no need to.
	goodbyeTime = time.Second

	// recordSize is what --record keeps of a connection, in octets, and
	// recordLimit bounds its file, give or take one connection, for mounts
	// that lose many.
	recordSize  = 16 << 20
	recordLimit = 256 << 20

	// listPiece is how many names of a local directory are read at once.
	listPiece = 1024

	// lsPiece is how many entries ls -U writes at a time, with columns that
	// fit them.
	lsPiece = 1024

	// holeBlock is what a copy leaves a hole for, in octets, where the
	// original has holes; a hole below shortHole costs a call more than its
	// octets do.
	holeBlock = 64 << 10
	shortHole = 1 << 20

	// copyMemory bounds the files of a copy that are in memory at a time, in
	// octets, writeWindow what one of them has waiting for a COMMIT, and
	// readWindow what it has asked for.
	copyMemory  = 128 << 20
	writeWindow = 64 << 20
	readWindow  = 16 << 20

	// leastWeight is what a small file needs of that: one buffer.
	leastWeight = 1 << 20

	// smallFile is what is asked for in one READ of no more than there is.
	smallFile = 1 << 20

	// maxJobs is how many files can be in flight: each has a descriptor.
	maxJobs = 256

	// maxGuesses is how many directories that a server does not list are
	// tried as exports, and maxNamed how many of its exports an error names.
	maxGuesses = 64
	maxNamed   = 16

	// groupTime is how long servers may take to answer a question to all.
	groupTime = time.Second

	// maxCredits is what rpcrdma allows.
	maxCredits = 4096
)
