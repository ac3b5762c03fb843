package nfsserver

// Limits of our own.
const (
	// payloadMultiple is the suggested multiple in bytes of READ and WRITE
	// sizes: the pages of the host.
	payloadMultiple = 4096

	// minLent is how many bytes a READ asks for at least, for its data to be sent
	// from the mapping of the file. The memory of a longer READ is taken only when
	// the data turns out to need it.
	minLent = 16 << 10

	// preferredDir is the preferred size of READDIR results in bytes: some
	// hundred entries with their attributes.
	preferredDir = 64 << 10

	// maxMounts bounds the entries of DUMP. The list is for people, so the
	// oldest entry makes room.
	maxMounts = 1024
)
