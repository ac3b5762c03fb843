package discover

import "time"

// Limits of our own.
const (
	// maxMessage is the longest message, in bytes: what a datagram of UD
	// holds on any Ethernet (the path MTU below 1500).
	maxMessage = 1024

	// minRequest is how long requests are at least, so that no answer without
	// names in it is longer.
	minRequest = 64

	// maxName bounds a host's name and a version, in bytes, and maxPath an
	// export's, as MOUNT does (MNTPATHLEN of RFC 1813).
	maxName = 64
	maxPath = 1024

	// maxFound bounds the servers that a finder lists.
	maxFound = 1024

	// maxExports is how many exports a finder asks for, some tens at a time, and
	// takes.
	maxExports = 4096

	// partyPart is the part of what is for all that one party may have: half of
	// it. To who has a network of IPv6, addresses cost nothing.
	partyPart = 2

	// answersPerSecond and answersPerAddress bound what a server answers to
	// whoever may be somebody else, provenPerSecond and provenPerAddress to
	// those who have shown a cookie.
	answersPerSecond  = 200
	answersPerAddress = 20
	provenPerSecond   = 2000
	provenPerAddress  = 200

	// cookieTime is how long a cookie is good for, at least.
	cookieTime = time.Minute

	// maxClients bounds those who are told of a restart, some 60 bytes each,
	// and maxPerAddress those of one host, whose mounts share one port.
	maxClients    = 1024
	maxPerAddress = 16

	// Lifetime is how long a client is told of restarts after it registered
	// last, and renewTime how often it does.
	Lifetime  = 24 * time.Hour
	renewTime = 5 * time.Minute

	// registerTime is how long a client asks before it leaves the server alone
	// until it is time to renew.
	registerTime = 5 * time.Second

	// leaveTime is how long a client that goes waits until the server has
	// heard it: it may need another cookie.
	leaveTime = 500 * time.Millisecond

	// maxMonitors bounds the streams of counters.
	maxMonitors = 16

	// MinInterval and MaxInterval bound the time between two updates.
	MinInterval = 100 * time.Millisecond
	MaxInterval = time.Minute

	// leaseTime is how long a stream goes on after it was asked for last, and
	// renewed is how often a monitor asks in that time. Three intervals are
	// the least.
	leaseTime = 15 * time.Second
	renewed   = 3

	// firstUpdate is how long a server leaves to its answer before the first
	// update, which is lost if it comes before.
	firstUpdate = 20 * time.Millisecond

	// CountersRoom is the memory that a monitor registers, in bytes: room for
	// maxProcs and maxTransports.
	CountersRoom  = 12 << 10
	maxTransports = 8
	maxProcs      = 96

	// saveTime is how often clients are saved of whom nothing is new but until when
	// they count.
	saveTime = time.Minute

	// tendTime is how often a server looks whether notices are due, and saves
	// its clients.
	tendTime = 100 * time.Millisecond

	// recvs is how many messages may wait to be looked at.
	recvs = 64
)

// noticeTimes are when those who have not registered anew are told of a restart,
// counted from it: the first goes at once, and any may be lost.
var noticeTimes = []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second}

// askTimes are how long to wait for an answer before a request is sent again; the
// last holds for all that follow.
var askTimes = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, time.Second}
