package billy

import (
	"math"
	"time"
)

const (
	// defaultObjects is the default bound on objects with handles: some 80 MiB,
	// and more files than most clients' working sets.
	defaultObjects = 1 << 18

	// minObjects is how many objects concurrent calls may need.
	minObjects = 1 << 10

	// maxName and maxPath are the longest name and path in bytes: NAME_MAX and
	// PATH_MAX of hosts. Longer paths would make every call on a deep directory
	// slow.
	maxName = 255
	maxPath = 4095

	// maxPlaces is how many names of one object are remembered.
	maxPlaces = 8

	maxFileSize = math.MaxInt64

	// maxListings bounds the directories whose names are cached while clients
	// list them, and listingAge is for how long. A client that continues a
	// listing sees changes late, as POSIX permits.
	maxListings = 16
	listingAge  = 5 * time.Second
)
