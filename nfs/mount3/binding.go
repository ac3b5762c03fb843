package mount3

// A Binding is this program's Upper-Layer Binding (RFC 8267, Section 5.1), for
// servers that serve MOUNT on NFS connections. Nothing in the program is
// DDP-eligible. Pass a Binding to stream.Listen.
type Binding struct{}

// Program returns the program number and version.
func (Binding) Program() (prog, vers uint32) { return Program, Version }

// ArgItem returns 0 for the length: there is no such argument.
func (Binding) ArgItem(uint32, []byte) (start, n int) { return 0, 0 }

// ResultItem returns 0 for the length: there is no such result.
func (Binding) ResultItem(uint32, []byte) (start, n int) { return 0, 0 }

// MaxResults returns the maximum length of a procedure's results in bytes, or
// -1 if the protocol sets no limit: MNT has a list of flavors, DUMP and EXPORT
// have lists of names.
func (Binding) MaxResults(proc uint32, _ []byte) (rest, item int) {
	switch proc {
	case ProcMnt, ProcDump, ProcExport:
		return -1, 0
	}
	return 0, 0
}
