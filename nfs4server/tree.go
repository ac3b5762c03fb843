package nfs4server

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A tree is the pseudo file system over one set of exports (RFC 8881, Section
// 7.3): the directories that lead from the root to each export.
//
//	/            pseudo, or the export with fsid=0 or the path "/"
//	└─ srv       pseudo
//	   ├─ a      export: its root directory
//	   │  └─ b   export below another, in the place of the host's directory
//	   └─ c      export
type tree struct {
	set    *realm.Set
	root   *node
	byHash map[uint64]*node
	byID   map[uint32]*node // nodes of exports
	made   time.Time
}

// A node is a directory of a tree. It is immutable.
type node struct {
	parent   *node
	name     string
	path     string
	hash     uint64 // of the path: handle and fileid
	export   *realm.Exported
	children []*node
}

// A treeCache holds the tree of the set that is in force.
type treeCache struct{ current atomic.Pointer[tree] }

// of returns the tree of the set in force.
func (c *treeCache) of(r *realm.Realm) *tree {
	set := r.Set()
	if t := c.current.Load(); t != nil && t.set == set {
		return t
	}
	t := newTree(set)
	c.current.Store(t)
	return t
}

// rootFSID marks the export that is the root.
var rootFSID, _ = exports.ParseFSID("0")

// isRoot reports whether an export is the root of the tree.
func isRoot(e *realm.Exported) bool {
	return e.Path == "/" || slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return c.Options.FSID == rootFSID })
}

func newTree(set *realm.Set) *tree {
	t := &tree{set: set, byHash: make(map[uint64]*node), byID: make(map[uint32]*node), made: time.Now()}
	t.root = t.add(nil, "")
	prefix := ""
	for _, e := range set.List() {
		if isRoot(e) {
			t.root.export = e
			t.byID[e.ID] = t.root
			prefix = strings.TrimSuffix(e.Path, "/")
			break
		}
	}
	// Paths below the root lose its path, and may then be those of others: these have no
	// place.
	for _, below := range [...]bool{true, false} {
		for _, e := range set.List() {
			rest, ok := strings.CutPrefix(e.Path, prefix+"/")
			if e == t.root.export || ok != below {
				continue
			}
			if !below {
				rest = e.Path
			}
			n := t.root
			for name := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
				n = t.child(n, name)
			}
			if n.export == nil {
				n.export = e
				t.byID[e.ID] = n
			}
		}
	}
	return t
}

// add makes a node.
func (t *tree) add(parent *node, name string) *node {
	n := &node{parent: parent, name: name, path: "/"}
	if parent != nil {
		n.path = strings.TrimSuffix(parent.path, "/") + "/" + name
		parent.children = append(parent.children, n)
	}
	h := fnv.New64a()
	h.Write([]byte(n.path))
	n.hash = h.Sum64()
	t.byHash[n.hash] = n
	return n
}

// child returns the child of n with a name, made if there was none.
func (t *tree) child(n *node, name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return t.add(n, name)
}

// pseudoVersion is the first byte of the handle of a pseudo node.
const pseudoVersion = 3

// appendNode appends the handle of n to b, which must be empty.
func (x *compound) appendNode(b []byte, n *node) []byte {
	return x.server.realm.AppendSealed(b, pseudoVersion, binary.BigEndian.AppendUint64(nil, n.hash))
}

// parseNode returns the node of a handle.
func (x *compound) parseNode(fh []byte) (*node, error) {
	body, err := x.server.realm.OpenSealed(pseudoVersion, fh)
	if err != nil {
		return nil, err
	}
	if len(body) != 8 {
		return nil, realm.BadHandle
	}
	n := x.tree().byHash[binary.BigEndian.Uint64(body)]
	if n == nil || n.export != nil {
		return nil, realm.Stale // an earlier set of exports
	}
	return n, nil
}

func (x *compound) tree() *tree { return x.server.tree.of(x.server.realm) }

// visible reports whether the client sees n: it may use the export there, or
// one below, perhaps with another security flavour.
func (x *compound) visible(ctx context.Context, t *tree, n *node) bool {
	is, _ := x.sees(ctx, t, n)
	return is
}

// sees is visible. The error is realm.Later if n is not visible, but whether it is will be
// known later.
func (x *compound) sees(ctx context.Context, t *tree, n *node) (is bool, err error) {
	if n.export != nil {
		switch denial := x.server.realm.Admits(ctx, x.call.Peer, &x.call.Cred, t.set, n.export); denial {
		case nil:
			return true, nil
		case realm.Later:
			err = denial
		}
	}
	for _, c := range n.children {
		switch is, later := x.sees(ctx, t, c); {
		case is:
			return true, nil
		case later != nil:
			err = later
		}
	}
	return false, err
}

// goTo makes a node the current object: the root directory of its export, if
// it has one. It does so too if the error is realm.WrongSec.
func (x *compound) goTo(ctx context.Context, n *node) error {
	if n.export == nil {
		x.current = object{node: n}
		return nil
	}
	u, err := x.enter(n.export.ID)
	if err != nil {
		return err
	}
	return x.goIn(ctx, u, u.Export.FS.Root())
}

// goIn makes an object of an export the current one, also if the error is
// realm.WrongSec.
func (x *compound) goIn(ctx context.Context, u *use, h vfs.Handle) error {
	err := u.Use(ctx, h)
	if err == nil || realm.BySecurity(err) {
		x.current = object{use: u, h: h, refused: err != nil}
	}
	return err
}

// superuser looks up the directories in which exports below others lie: the
// exports alone decide which clients see the directories.
var superuser vfs.Cred

// walk looks up the directory of an export at a path below its root.
func walk(ctx context.Context, fs vfs.FS, names []string) (h vfs.Handle, err error) {
	h = fs.Root()
	for _, name := range names {
		if h, _, _, err = fs.Lookup(ctx, &superuser, h, name); err != nil {
			return h, err
		}
	}
	return h, nil
}

// junction returns the node of an export that lies at a name in a directory of
// another export, or nil.
func (x *compound) junction(ctx context.Context, o *object, name string) *node {
	t := x.tree()
	top := t.byID[o.use.Export.ID]
	if top == nil || len(top.children) == 0 {
		return nil
	}
	return x.junctionBelow(ctx, o, top, nil, name)
}

// mayLead reports whether a name in a directory of an export may be a junction. It
// calls no file system.
func (x *compound) mayLead(o *object, name string) bool {
	top := x.tree().byID[o.use.Export.ID]
	return top != nil && top.leadsTo(name)
}

// leadsTo reports whether an export below n has a name as its last.
func (n *node) leadsTo(name string) bool {
	for _, c := range n.children {
		if c.export != nil && c.name == name || c.export == nil && c.leadsTo(name) {
			return true
		}
	}
	return false
}

// junctionBelow searches the pseudo directories below an export's node, whose
// path from the export is names.
func (x *compound) junctionBelow(ctx context.Context, o *object, n *node, names []string, name string) *node {
	for _, c := range n.children {
		if c.export == nil {
			if found := x.junctionBelow(ctx, o, c, append(names[:len(names):len(names)], c.name), name); found != nil {
				return found
			}
			continue
		}
		if c.name != name {
			continue
		}
		if h, err := walk(ctx, o.use.Export.FS, names); err == nil && h == o.h {
			return c
		}
	}
	return nil
}

// above makes the parent of an export's root directory the current object.
func (x *compound) above(ctx context.Context, e *realm.Exported) error {
	n := x.tree().byID[e.ID]
	if n == nil {
		return realm.Stale
	}
	if n.parent == nil {
		return errNoParent
	}
	var names []string
	for p := n.parent; p != nil; p = p.parent {
		if p.export == nil {
			names = append(names, p.name)
			continue
		}
		slices.Reverse(names)
		u, err := x.enter(p.export.ID)
		if err != nil {
			return err
		}
		h, err := walk(ctx, u.Export.FS, names)
		if err != nil {
			return err
		}
		return x.goIn(ctx, u, h)
	}
	return x.goTo(ctx, n.parent)
}
