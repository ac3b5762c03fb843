package mem

import "math"

const (
	// defaultSize is the default of Options.Size, in bytes.
	defaultSize = 1 << 30

	// objectCost is how much an object counts against the size besides its
	// data, in bytes: more than its node, its name and its map entry take.
	objectCost = 1 << 10

	// pageLen is the number of bytes of a page.
	pageLen = 4 << 10

	// clusterLen is how many pages share one entry in the map of a file, and
	// clusterCost is how much the entry counts against the size, in bytes.
	clusterLen  = 64
	clusterCost = 8*clusterLen + 64

	// xattrFixed is how much an extended attribute counts against the size
	// besides its name and its value, in bytes: more than its map entry takes.
	xattrFixed = 128

	// The limits of Linux's file systems.
	maxName     = 255  // bytes
	maxTarget   = 4095 // bytes of a symbolic link's path
	maxLinks    = 65000
	maxFileSize = math.MaxInt64
	majorBits   = 12
	minorBits   = 20

	// noID is not a valid user or group: it means "unchanged" to the kernel.
	noID = math.MaxUint32

	// slack is how many dead entries beyond the number of live ones a directory
	// may have before its list is rebuilt.
	slack = 64
)
