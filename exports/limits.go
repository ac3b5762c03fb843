package exports

import "time"

// Limits of our own.
const (
	// maxText is the length in bytes of the longest file: a hundred thousand
	// clients.
	maxText = 8 << 20

	// maxErrors is how many errors of a file are reported: more have one cause.
	maxErrors = 100

	// maxName is the length of the longest host's name (RFC 1035, Section
	// 2.3.4) and of the longest wildcard.
	maxName = 255

	// maxPath is the length in bytes of the longest path, the limit of MOUNT
	// (RFC 1813, Section 5.1.4).
	maxPath = 1024

	// maxLocations is how many places refer= and replicas= may list: as many as
	// in nfs-utils.
	maxLocations = 40

	// lookupTime bounds one query to the name service.
	lookupTime = 5 * time.Second

	// maxLookups is how many queries run at once: as many as clients that may
	// come at once after a restart. It bounds goroutines and sockets.
	maxLookups = 64

	// maxAnswers is how many answers are cached: more than there are clients.
	maxAnswers = 8192

	// maxReverse is how many names of one address are checked.
	maxReverse = 8

	// freshTime is how long an answer is valid. noneTime is how long a negative
	// answer is: an administrator who adds the name waits for that long.
	freshTime = 5 * time.Minute
	noneTime  = 30 * time.Second

	// staleTime is how long an old answer is used while a new query runs, or
	// the name service is down.
	staleTime = time.Hour

	// failTime is how long no query is tried after a failure.
	failTime = 3 * time.Second
)
