package mem

import "math"

const (
	// defaultSize is what an FS holds, in octets.
	defaultSize = 1 << 30

	// objectCost is what an object counts against the size beside its data, in
	// octets: its node, its name and its place in a map come to less.
	objectCost = 1 << 10

	// pageLen is the octets of a file that are kept together.
	pageLen = 4 << 10

	// clusterLen is how many pages have one entry in the map of a file, and
	// clusterCost what that counts against the size, in octets.
	clusterLen  = 64
	clusterCost = 8*clusterLen + 64

	// The limits of Linux's file systems.
	maxName     = 255  // octets
	maxTarget   = 4095 // octets of a symbolic link's path
	maxLinks    = 65000
	maxFileSize = math.MaxInt64
	majorBits   = 12
	minorBits   = 20

	// noID is no user or group: it means "as before" to the kernel.
	noID = math.MaxUint32

	// slack is how many entries of a directory may be dead beyond as many as
	// live, before their list is made anew.
	slack = 64
)
