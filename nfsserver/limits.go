package nfsserver

// Local limits.
const (
	// payloadMultiple is the suggested multiple in bytes for READ and WRITE sizes: the host's
	// page size.
	payloadMultiple = 4096

	// minMapped is the minimum number of bytes that a READ must request for its data to be sent
	// from the file's mapping. The memory for a longer READ is allocated only when the data
	// turns out to need it.
	minMapped = 16 << 10

	// preferredDir is the preferred size of READDIR results in bytes: some hundred entries with
	// their attributes.
	preferredDir = 64 << 10

	// maxMounts limits the entries in DUMP's results. The list is only informational, so a new
	// entry replaces the oldest.
	maxMounts = 1024
)
