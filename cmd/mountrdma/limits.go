package main

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/copytree"
)

// Limits of our own.
const (
	// defaultTimeout keeps every failure below the ten seconds after which
	// users believe that a program hangs.
	defaultTimeout = 8 * time.Second

	// minTimeout is enough for a round trip around the world in each of an MPA
	// start-up and a call, with some processing time.
	minTimeout = 100 * time.Millisecond

	// bridgePatience is how long calls of bridge wait for a server that is
	// away: longer than a restart takes, and well below the minute after which
	// clients repeat a call.
	bridgePatience = 30 * time.Second

	// recordSize is how many bytes --record keeps of a connection. recordLimit
	// bounds the whole file, within one connection, for mounts that lose many
	// connections.
	recordSize  = 16 << 20
	recordLimit = 256 << 20

	// lsPiece is how many entries ls -U writes at a time, with columns that fit
	// these entries.
	lsPiece = 1024

	// writeWindow bounds the bytes of one file that wait for a COMMIT.
	writeWindow = copytree.WriteWindow

	// maxJobs bounds the files in flight, each of which has a descriptor.
	maxJobs = 256

	// maxGuesses bounds the unlisted directories that are tried as exports.
	// maxNamed bounds the exports that an error names.
	maxGuesses = 64
	maxNamed   = 16

	// The pause between attempts to mount starts at firstPause and doubles up to
	// lastPause, which is no load for a server.
	firstPause = time.Second
	lastPause  = 10 * time.Second

	// minProcessors is the least GOMAXPROCS of a mount: enough for the goroutines
	// that wait in system calls, and for one on each processor of a small host.
	minProcessors = 8

	// groupTime is how long servers may take to answer a multicast question.
	groupTime = time.Second
)
