package exports

import "time"

// Local limits.
const (
	// maxText is the maximum length in bytes of a file: a hundred thousand clients.
	maxText = 8 << 20

	// maxErrors is the number of errors reported for a file: further ones have one cause.
	maxErrors = 100

	// maxName is the maximum length of a host name (RFC 1035, Section 2.3.4) and of a wildcard.
	maxName = 255

	// maxPath is the maximum length in bytes of a path, the limit of MOUNT (RFC 1813, Section
	// 5.1.4).
	maxPath = 1024

	// maxLocations is the number of locations that refer= and replicas= may list: the same as
	// in nfs-utils.
	maxLocations = 40

	// lookupTimeout limits one query to the name service.
	lookupTimeout = 5 * time.Second

	// maxLookups is the number of queries that run at once: as many as clients that may arrive
	// at once after a restart. It limits goroutines and sockets.
	maxLookups = 64

	// maxAnswers is the number of cached replies: more than there are clients.
	maxAnswers = 8192

	// maxReverse is the number of names that are checked for one address.
	maxReverse = 8

	// freshTime is the time for which a reply is valid. noneTime is the same for a negative
	// reply: an administrator who adds the name waits for that long.
	freshTime = 5 * time.Minute
	noneTime  = 30 * time.Second

	// staleTime is the time for which an old reply is used while a new query runs, or while the
	// name service is down.
	staleTime = time.Hour

	// retryTime is the time after a failure before the next query.
	retryTime = 3 * time.Second
)
