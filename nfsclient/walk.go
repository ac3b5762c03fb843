package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A Node is an object on the server.
type Node struct {
	Handle nfs3.FH
	Attr   nfs3.Attr // as found
}

var (
	errOutside = errors.New("the path leads out of the export")
	errNotDir  = &Error{Proc: nfs3.ProcLookup, Status: nfs3.ErrNotDir}
	errNoEnt   = &Error{Proc: nfs3.ProcLookup, Status: nfs3.ErrNoEnt}
)

// A foundPath is the result of a path walk.
type foundPath struct {
	dirs          []nfs3.FH // from the export's root to the directory that holds name
	name          string    // empty: the last directory in dirs itself
	trailingSlash bool      // a slash follows name, which must be a directory
	node          Node      // its Handle is nil if the name does not exist
}

func (p *foundPath) nameExists() bool { return p.node.Handle != nil }

// parentDir returns the directory that holds p's name.
func (p *foundPath) parentDir() nfs3.FH { return p.dirs[len(p.dirs)-1] }

// walkPath finds the object at path. follow selects whether a symbolic link at the
// path's end is followed; a trailing slash always follows it.
func (f *FS) walkPath(ctx context.Context, path string, follow bool) (foundPath, error) {
	p, err := f.findPath(ctx, path, follow)
	switch {
	case err != nil:
		return p, err
	case !p.nameExists():
		return p, errNoEnt
	case p.trailingSlash && p.node.Attr.Type != nfs3.TypeDir:
		return p, errNotDir
	}
	return p, nil
}

// findPath finds the object at path, whose last name need not exist.
func (f *FS) findPath(ctx context.Context, path string, follow bool) (foundPath, error) {
	w := pathWalker{f: f, dirs: slices.Clone(f.dirs), rest: path, follow: follow}
	return w.walkAll(ctx)
}

// findParent finds the directory in which to create or remove path's last name.
func (f *FS) findParent(ctx context.Context, path string) (dir nfs3.FH, name string, err error) {
	path = strings.TrimRight(path, "/")
	head, name := path[:strings.LastIndexByte(path, '/')+1], path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case name == "" || name == "." || name == "..":
		return nil, "", syscall.EINVAL // like rmdir(2) and rename(2)
	case strings.Trim(head, "/") == "":
		return f.Root(), name, nil
	}
	p, err := f.walkPath(ctx, head, true)
	return p.node.Handle, name, err
}

// lookUpNode calls LOOKUP, and GETATTR if the server left out the attributes.
func (f *FS) lookUpNode(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	res, err := f.c.Lookup(ctx, dir, name)
	if err != nil {
		return Node{}, err
	}
	return f.nodeWithAttr(ctx, res.Object, &res.ObjAttr)
}

// nodeWithAttr returns the object with its attributes, and calls GETATTR if
// attr is not OK.
func (f *FS) nodeWithAttr(ctx context.Context, object nfs3.FH, attr *nfs3.PostOpAttr) (n Node, err error) {
	n = Node{Handle: object, Attr: attr.Attr}
	if !attr.OK {
		n.Attr, err = f.c.GetAttr(ctx, object)
	}
	return n, err
}

// A pathWalker is the state of a path walk.
type pathWalker struct {
	f         *FS
	dirs      []nfs3.FH // from the export's root to the current directory
	rest      string    // remaining path
	follow    bool
	linkCount int // number followed so far

	// makeDir, if not nil, creates missing directories.
	makeDir func(ctx context.Context, dir nfs3.FH, name string) (Node, error)
}

func (w *pathWalker) walkAll(ctx context.Context) (foundPath, error) {
	for {
		name, behind := w.nextName()
		dir := w.dirs[len(w.dirs)-1]
		switch name {
		case "":
			attr, err := w.f.c.GetAttr(ctx, dir)
			return foundPath{dirs: w.dirs, trailingSlash: true, node: Node{dir, attr}}, err
		case "..":
			if len(w.dirs) == 1 {
				return foundPath{}, errOutside
			}
			w.dirs, w.rest = w.dirs[:len(w.dirs)-1], behind
			continue
		}
		node, err := w.lookUpName(ctx, dir, name)
		if err != nil {
			return foundPath{}, err
		}
		isLink := node.Attr.Type == nfs3.TypeLnk
		last := strings.Trim(behind, "/") == ""
		if last && !(isLink && (w.follow || behind != "")) {
			return foundPath{dirs: w.dirs, name: name, trailingSlash: behind != "", node: node}, nil
		}
		if err := w.enterNode(ctx, node, behind); err != nil {
			return foundPath{}, err
		}
	}
}

// nextName returns the next name in the path, "" at the end, and the remaining
// path after the name.
func (w *pathWalker) nextName() (name, behind string) {
	for {
		w.rest = strings.TrimLeft(w.rest, "/")
		i := strings.IndexByte(w.rest+"/", '/')
		if name = w.rest[:i]; name != "." {
			return name, w.rest[i:]
		}
		w.rest = w.rest[i:]
	}
}

// lookUpName finds name in dir. A missing name is not an error; the Node then has no
// Handle.
func (w *pathWalker) lookUpName(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	node, err := w.f.lookUpNode(ctx, dir, name)
	switch {
	case !errors.Is(err, nfs3.ErrNoEnt):
		return node, err
	case w.makeDir != nil:
		return w.makeDir(ctx, dir, name)
	}
	return Node{}, nil
}

// enterNode continues the walk in node, a directory or symbolic link.
func (w *pathWalker) enterNode(ctx context.Context, node Node, behind string) error {
	switch {
	case node.Handle == nil:
		return errNoEnt
	case node.Attr.Type == nfs3.TypeDir:
		w.dirs, w.rest = append(w.dirs, node.Handle), behind
		return nil
	case node.Attr.Type == nfs3.TypeLnk:
		return w.enterLink(ctx, node.Handle, behind)
	}
	return errNotDir
}

func (w *pathWalker) enterLink(ctx context.Context, link nfs3.FH, behind string) error {
	if w.linkCount++; w.linkCount > maxLinks {
		return syscall.ELOOP
	}
	res, err := w.f.c.ReadLink(ctx, link)
	if err != nil {
		return err
	}
	target := string(res.Path)
	switch {
	case target == "":
		return errNoEnt
	case target[0] == '/':
		inside, ok := w.f.pathInExport(target)
		if !ok {
			return fmt.Errorf("%w: it contains a symbolic link to %q", errOutside, target)
		}
		w.dirs, target = w.dirs[:1], inside
	}
	w.rest = target + behind
	return nil
}

// pathInExport converts an absolute path on the server to a path relative to
// the export's root, or returns false if it is not below the export.
func (f *FS) pathInExport(path string) (string, bool) {
	for _, want := range f.exportNames {
		path = strings.TrimLeft(path, "/")
		name, rest, _ := strings.Cut(path, "/")
		if name != want {
			return "", false
		}
		path = rest
	}
	return path, true
}
