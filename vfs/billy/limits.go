package billy

import (
	"math"
	"time"
)

const (
	// defaultObjects is the most objects with handles: some 80 MiB, and as
	// many files as one client's working set seldom has.
	defaultObjects = 1 << 18

	// minObjects is what calls under way at the same time may need.
	minObjects = 1 << 10

	// maxName and maxPath are the longest name and path in octets: NAME_MAX
	// and PATH_MAX of hosts. A file system that takes more would make
	// every call on a deep directory slow.
	maxName = 255
	maxPath = 4095

	// maxPlaces is how many names of one object are remembered.
	maxPlaces = 8

	maxFileSize = math.MaxInt64

	// maxListings bounds the directories whose names are kept while clients
	// read on, and listingAge how long they are: what came or went meanwhile
	// shows late to who reads on, as POSIX allows.
	maxListings = 16
	listingAge  = 5 * time.Second
)
