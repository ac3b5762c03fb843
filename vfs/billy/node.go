package billy

import (
	"container/list"
	"slices"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A node is an object that clients have seen. The table's lock guards all
// fields that change after its creation.
type node struct {
	handle vfs.Handle
	id     uint64 // for a file system without inode numbers
	typ    vfs.Type
	fileID uint64 // the file system's own, or 0

	places []place          // its names; none for the root
	kids   map[string]*node // a directory's names that have nodes
	used   *list.Element    // in table.used; nil for the root
	gone   bool             // no longer in the table

	touched   vfs.Time // time of the last change through the FS
	verifier  uint64   // the exclusive create's that made it
	exclusive bool     // and no attributes were set since
}

// A place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// isA reports whether type and inode number still match the node's.
func (n *node) isA(typ vfs.Type, fileID uint64) bool {
	return n.typ == typ && n.fileID == fileID
}

// pathNames returns the names on the path from the root to n.
func (n *node) pathNames() []string {
	var out []string
	for len(n.places) > 0 {
		out = append(out, n.places[0].name)
		n = n.places[0].dir
	}
	slices.Reverse(out)
	return out
}
