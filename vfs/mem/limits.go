package mem

import "math"

const (
	// defaultSize is Options.Size's default, in bytes.
	defaultSize = 1 << 30

	// objectCost is the number of bytes that an object counts against the size in addition to
	// its data: more than its node, its name and its map entry take.
	objectCost = 1 << 10

	// pageLen is a page's size in bytes.
	pageLen = 4 << 10

	// clusterLen is the number of pages that share one entry in a file's map, and clusterCost
	// is the number of bytes that the entry counts against the size.
	clusterLen  = 64
	clusterCost = 8*clusterLen + 64

	// xattrFixed is the number of bytes that an extended attribute counts against the size in
	// addition to its name and its value: more than its map entry takes.
	xattrFixed = 128

	// Linux file systems' limits.
	maxName     = 255  // bytes
	maxTarget   = 4095 // bytes in a symbolic link's path
	maxLinks    = 65000
	maxFileSize = math.MaxInt64
	majorBits   = 12
	minorBits   = 20

	// noID is not a valid user or group: it means "unchanged" to the kernel.
	noID = math.MaxUint32

	// slack is the number of dead entries beyond the live ones that a directory may have before
	// its list is rebuilt.
	slack = 64
)
