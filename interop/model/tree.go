package model

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links Linux follows in one path.
const maxLinks = 40

// A node is a file, a directory or a symbolic link.
type node struct {
	kind    string // as in Attr
	mode    uint32
	nlink   int
	data    []byte           // for a file
	target  string           // for a link
	entries map[string]*node // for a directory
	parent  *node            // for a directory
	mtime   int64            // nanoseconds; 0: unknown, from the server's clock
}

// A Tree is the expected state of a Linux directory, for a caller with all
// rights.
type Tree struct{ root *node }

// NewTree returns a tree for an empty directory.
func NewTree() *Tree { return &Tree{newDir(nil, 0o755)} }

func newDir(parent *node, mode uint32) *node {
	n := &node{kind: "dir", mode: mode, nlink: 2, entries: make(map[string]*node), parent: parent}
	if parent != nil {
		n.mode |= parent.mode & unix.S_ISGID
	}
	return n
}

// Do does an operation and returns its expected result.
func (t *Tree) Do(o Op) Result {
	r, err := t.doOp(o)
	if err != 0 {
		r = Result{Err: unix.ErrnoName(err)}
		if o.Kind == Link && err == unix.EEXIST {
			// Linking a directory to an existing name: Linux's NFS client lets the server
			// check the name, and rejects directories first.
			if n, _ := t.lookup(o.Path, false); n != nil && n.kind == "dir" {
				r.Or = unix.ErrnoName(unix.EPERM)
			}
		}
	}
	return r
}

func (t *Tree) doOp(o Op) (Result, unix.Errno) {
	switch o.Kind {
	case Create, Write, Append, Rewrite, Read, Reopen:
		return t.doFileOp(o)
	case Truncate, Chmod, Utimes:
		return Result{}, t.setAttr(o)
	case Stat, Readlink, List:
		return t.doLookOp(o)
	case Link:
		return Result{}, t.makeLink(o)
	case Rename:
		return Result{}, t.renameEntry(o)
	default:
		return Result{}, t.doEntryOp(o)
	}
}

// A place is a path's end: a name in a directory, and its node, if any.
type place struct {
	in   *node
	name string
	node *node
}

// resolve resolves a path. If follow is set, walk also follows a symbolic link at
// the last name.
func (t *Tree) resolve(path string, follow bool) (place, unix.Errno) {
	links := 0
	return t.walkFrom(t.root, path, follow, &links)
}

func (t *Tree) walkFrom(at *node, path string, follow bool, links *int) (place, unix.Errno) {
	for {
		name, rest, more := strings.Cut(path, "/")
		if at.kind != "dir" {
			return place{}, unix.ENOTDIR
		}
		p := place{at, name, at.entries[name]}
		if p.node != nil && p.node.kind == "link" && (more || follow) {
			if *links++; *links > maxLinks {
				return place{}, unix.ELOOP
			}
			var err unix.Errno
			if p, err = t.walkFrom(at, p.node.target, true, links); err != 0 {
				return place{}, err
			}
		}
		if !more {
			return p, 0
		}
		if p.node == nil {
			return place{}, unix.ENOENT
		}
		at, path = p.node, rest
	}
}

// IsLink reports whether a path ends at a symbolic link.
func (t *Tree) IsLink(path string) bool {
	n, err := t.lookup(path, false)
	return err == 0 && n.kind == "link"
}

// IsDir reports whether a path is a directory.
func (t *Tree) IsDir(path string) bool {
	n, err := t.lookup(path, false)
	return err == 0 && n.kind == "dir"
}

// Exists reports whether a path exists.
func (t *Tree) Exists(path string) bool {
	_, err := t.lookup(path, false)
	return err == 0
}

// lookup is walk to an existing node.
func (t *Tree) lookup(path string, follow bool) (*node, unix.Errno) {
	p, err := t.resolve(path, follow)
	if err == 0 && p.node == nil {
		err = unix.ENOENT
	}
	return p.node, err
}

// addNode gives a node a name.
func (p place) addNode(n *node) {
	p.in.entries[p.name] = n
	p.in.mtime = 0
	if n.kind == "dir" {
		n.parent = p.in
		p.in.nlink++
	}
}

// removeName takes the name away.
func (p place) removeName() {
	delete(p.in.entries, p.name)
	p.in.mtime = 0
	if p.node.kind == "dir" {
		p.in.nlink--
		p.node.nlink = 0
	} else {
		p.node.nlink--
	}
}

func (n *node) attributes() *Attr {
	a := &Attr{Type: n.kind, Mode: n.mode, Nlink: n.nlink, Mtime: n.mtime}
	switch n.kind {
	case "file":
		a.Size = int64(len(n.data))
	case "link":
		a.Size = int64(len(n.target))
	}
	return a
}

func (n *node) sortedNames() []string { return slices.Sorted(maps.Keys(n.entries)) }
