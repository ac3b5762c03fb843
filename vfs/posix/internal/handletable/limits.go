//go:build linux

package handletable

const (
	// MaxName is the maximum length of a place's name, in bytes.
	MaxName = 4095

	// maxPlaces is the number of names that the table keeps for one inode.
	maxPlaces = 8

	// maxAside is the number of other directories' tables that are kept on disk, each for the
	// day when the export's path leads to its directory again.
	maxAside = 8

	// maxPending bounds the unwritten bytes.
	maxPending = 1 << 20

	// maxRecord is the file's maximum record length, in bytes.
	maxRecord = recordFixed + identityLen + maxPlaces*(placeFixed+MaxName)

	// compactSlack is the number of records beyond twice the entries that the file may hold
	// before it is rewritten.
	compactSlack = 4096
)
