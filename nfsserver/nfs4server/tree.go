package nfs4server

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
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
	set     *exportset.Snapshot
	root    *node
	byHash  map[uint64]*node
	byID    map[uint32]*node // export nodes
	created time.Time
}

// A node is a directory of a tree. It is immutable.
type node struct {
	parent   *node
	name     string
	path     string
	hash     uint64 // hash of the path: handle and fileid
	export   *exportset.Exported
	children []*node
}

// A treeCache holds the tree for the current export set.
type treeCache struct{ current atomic.Pointer[tree] }

// treeFor returns the tree for the current export set.
func (c *treeCache) treeFor(r *exportset.Set) *tree {
	set := r.Snapshot()
	if t := c.current.Load(); t != nil && t.set == set {
		return t
	}
	t := newTree(set)
	c.current.Store(t)
	return t
}

// rootFSID marks the export at the root.
var rootFSID, _ = exports.ParseFSID("0")

// isRoot reports whether an export is the tree's root.
func isRoot(e *exportset.Exported) bool {
	return e.Path == "/" || slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return c.Options.FSID == rootFSID })
}

func newTree(set *exportset.Snapshot) *tree {
	t := &tree{set: set, byHash: make(map[uint64]*node), byID: make(map[uint32]*node), created: time.Now()}
	t.root = t.addNode(nil, "")
	prefix := ""
	for _, e := range set.List() {
		if isRoot(e) {
			t.root.export = e
			t.byID[e.ID] = t.root
			prefix = strings.TrimSuffix(e.Path, "/")
			break
		}
	}
	// Paths below the root lose its path, and may then equal the paths of other exports: these
	// exports have no node.
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
				n = t.childNamed(n, name)
			}
			if n.export == nil {
				n.export = e
				t.byID[e.ID] = n
			}
		}
	}
	return t
}

// addNode adds a node.
func (t *tree) addNode(parent *node, name string) *node {
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

// childNamed returns n's child with a name, and adds it if there is none.
func (t *tree) childNamed(n *node, name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return t.addNode(n, name)
}

// pseudoVersion is the first byte of a pseudo node's handle.
const pseudoVersion = 3

// appendNodeHandle appends n's handle to b, which must be empty.
func (x *compound) appendNodeHandle(b []byte, n *node) []byte {
	return x.server.exports.AppendSealed(b, pseudoVersion, binary.BigEndian.AppendUint64(nil, n.hash))
}

// parseNodeHandle returns the node for a handle.
func (x *compound) parseNodeHandle(fh []byte) (*node, error) {
	body, err := x.server.exports.OpenSealed(pseudoVersion, fh)
	if err != nil {
		return nil, err
	}
	if len(body) != 8 {
		return nil, exportset.BadHandle
	}
	n := x.currentTree().byHash[binary.BigEndian.Uint64(body)]
	if n == nil || n.export != nil {
		return nil, exportset.Stale // from an earlier set of exports
	}
	return n, nil
}

func (x *compound) currentTree() *tree { return x.server.tree.treeFor(x.server.exports) }

// isVisible reports whether the client sees n: it may use the export there, or one below,
// possibly with another security flavor.
func (x *compound) isVisible(ctx context.Context, t *tree, n *node) bool {
	is, _ := x.checkVisible(ctx, t, n)
	return is
}

// checkVisible reports whether the client sees n. If n is not visible, but that may change, the
// error is exportset.Later.
func (x *compound) checkVisible(ctx context.Context, t *tree, n *node) (is bool, err error) {
	if n.export != nil {
		switch denial := x.server.exports.CheckAccess(ctx, x.call.Peer, &x.call.Cred, t.set, n.export); denial {
		case nil:
			return true, nil
		case exportset.Later:
			err = denial
		}
	}
	for _, c := range n.children {
		switch is, later := x.checkVisible(ctx, t, c); {
		case is:
			return true, nil
		case later != nil:
			err = later
		}
	}
	return false, err
}

// goToNode makes a node the current object: the root directory of its export, if it has one. It
// does so even if the error is exportset.WrongSec.
func (x *compound) goToNode(ctx context.Context, n *node) error {
	if n.export == nil {
		x.current = object{node: n}
		return nil
	}
	u, err := x.enterExport(n.export.ID)
	if err != nil {
		return err
	}
	return x.goToObject(ctx, u, u.Export.FS.Root())
}

// goToObject makes an object in an export the current one, even if the error is
// exportset.WrongSec.
func (x *compound) goToObject(ctx context.Context, u *exportUse, h vfs.Handle) error {
	err := u.CheckObject(ctx, h)
	x.setCurrentObject(ctx, u, h, err)
	return err
}

// setCurrentObject makes an object in an export the current one, unless err is another error than a
// denial of the call's security. The client is told which flavors the export accepts, but not which
// transports, so the log names these.
func (x *compound) setCurrentObject(ctx context.Context, u *exportUse, h vfs.Handle, err error) {
	if err == exportset.WrongTransport {
		u.LogDenial(ctx)
	}
	if err == nil || exportset.IsSecurityDenial(err) {
		x.current = object{use: u, h: h, wrongSec: err != nil}
	}
}

// superuser looks up the directories that contain exports below others: only the exports decide
// which clients see these directories.
var superuser vfs.Cred

// lookupPath looks up the directory at a path below an export's root.
func lookupPath(ctx context.Context, fs vfs.FS, names []string) (h vfs.Handle, err error) {
	h = fs.Root()
	for _, name := range names {
		if h, _, _, err = fs.Lookup(ctx, &superuser, h, name); err != nil {
			return h, err
		}
	}
	return h, nil
}

// findJunction returns the node of the export that lies at a name in another export's
// directory, or nil.
func (x *compound) findJunction(ctx context.Context, o *object, name string) *node {
	t := x.currentTree()
	top := t.byID[o.use.Export.ID]
	if top == nil || len(top.children) == 0 {
		return nil
	}
	return x.findJunctionBelow(ctx, o, top, nil, name)
}

// mayBeJunction reports whether a name in an export's directory may be a junction. It calls no
// file system.
func (x *compound) mayBeJunction(o *object, name string) bool {
	top := x.currentTree().byID[o.use.Export.ID]
	return top != nil && top.hasJunction(name)
}

// hasJunction reports whether the path of an export below n ends with a name.
func (n *node) hasJunction(name string) bool {
	for _, c := range n.children {
		if c.export != nil && c.name == name || c.export == nil && c.hasJunction(name) {
			return true
		}
	}
	return false
}

// findJunctionBelow searches the pseudo directories below an export's node. names is n's path
// from the export.
func (x *compound) findJunctionBelow(ctx context.Context, o *object, n *node, names []string, name string) *node {
	for _, c := range n.children {
		if c.export == nil {
			if found := x.findJunctionBelow(ctx, o, c, append(names[:len(names):len(names)], c.name), name); found != nil {
				return found
			}
			continue
		}
		if c.name != name {
			continue
		}
		if c.export.IsSubmount() && !x.mayCross(ctx, c) {
			return nil
		}
		if h, err := lookupPath(ctx, o.use.Export.FS, names); err == nil && h == o.h {
			return c
		}
	}
	return nil
}

// mayCross reports whether the client sees a mounted file system in the place of the directory on
// which it is mounted.
func (x *compound) mayCross(ctx context.Context, n *node) bool {
	is, err := x.checkVisible(ctx, x.currentTree(), &node{export: n.export})
	return is || err != nil
}

// goToParent makes the parent of an export's root directory the current object.
func (x *compound) goToParent(ctx context.Context, e *exportset.Exported) error {
	n := x.currentTree().byID[e.ID]
	if n == nil {
		return exportset.Stale
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
		u, err := x.enterExport(p.export.ID)
		if err != nil {
			return err
		}
		h, err := lookupPath(ctx, u.Export.FS, names)
		if err != nil {
			return err
		}
		return x.goToObject(ctx, u, h)
	}
	return x.goToNode(ctx, n.parent)
}
