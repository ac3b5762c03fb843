package main

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/copytree"
)

// Limits of this program.
const (
	// defaultTimeout keeps every failure below the ten seconds after which
	// users believe that a program has hung.
	defaultTimeout = 8 * time.Second

	// minTimeout is enough for a round trip around the world in each of an MPA
	// start-up and a call, with some processing time.
	minTimeout = 100 * time.Millisecond

	// bridgePatience is how long the bridge's calls wait for an unreachable
	// server: longer than a restart takes, and well below the minute after which
	// clients retransmit a call.
	bridgePatience = 30 * time.Second

	// recordSize is the number of bytes that --record keeps per connection.
	// recordLimit bounds the whole file, give or take one connection, for mounts
	// that lose many connections.
	recordSize  = 16 << 20
	recordLimit = 256 << 20

	// lsPiece is the number of entries that ls -U writes at once, with columns
	// wide enough for these entries.
	lsPiece = 1024

	// writeWindow bounds the bytes of one file that wait for a COMMIT.
	writeWindow = copytree.WriteWindow

	// maxWalkDepth bounds the depth of a tree that du, find and chmod -R visit. maxSeenFiles
	// bounds the files with several names that du remembers.
	maxWalkDepth = 1 << 10
	maxSeenFiles = 1 << 20

	// maxJobs bounds the files copied concurrently, each of which has a descriptor.
	maxJobs = 256

	// maxGuesses bounds the unlisted directories that are tried as exports.
	// maxNamed bounds the exports that an error names.
	maxGuesses = 64
	maxNamed   = 16

	// The pause between attempts to mount starts at firstPause and doubles up to
	// lastPause, which is no load for a server.
	firstPause = time.Second
	lastPause  = 10 * time.Second

	// minProcessors is the minimum GOMAXPROCS for a mount: enough for the goroutines
	// that wait in system calls, and for one on each processor of a small host.
	minProcessors = 8

	// groupTime is the time limit for replies to a multicast query.
	groupTime = time.Second
)
