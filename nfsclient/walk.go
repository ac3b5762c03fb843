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

// A place is the result of following a path.
type place struct {
	dirs  []nfs3.FH // from the export's root to the directory of name
	name  string    // empty: the last of dirs itself
	slash bool      // a slash follows name, which must be a directory
	node  Node      // its Handle is nil if the name does not exist
}

func (p *place) found() bool { return p.node.Handle != nil }

// dir returns the directory that holds the place's name.
func (p *place) dir() nfs3.FH { return p.dirs[len(p.dirs)-1] }

// walk finds the object at path. follow selects whether a symbolic link at the
// path's end is followed; a trailing slash always follows it.
func (f *FS) walk(ctx context.Context, path string, follow bool) (place, error) {
	p, err := f.find(ctx, path, follow)
	switch {
	case err != nil:
		return p, err
	case !p.found():
		return p, errNoEnt
	case p.slash && p.node.Attr.Type != nfs3.TypeDir:
		return p, errNotDir
	}
	return p, nil
}

// find is walk for a path whose last name need not exist.
func (f *FS) find(ctx context.Context, path string, follow bool) (place, error) {
	w := walker{f: f, dirs: slices.Clone(f.dirs), rest: path, follow: follow}
	return w.walk(ctx)
}

// parent finds the directory of the last name in path, for creating or removing
// that name.
func (f *FS) parent(ctx context.Context, path string) (dir nfs3.FH, name string, err error) {
	path = strings.TrimRight(path, "/")
	head, name := path[:strings.LastIndexByte(path, '/')+1], path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case name == "" || name == "." || name == "..":
		return nil, "", syscall.EINVAL // like rmdir(2) and rename(2)
	case strings.Trim(head, "/") == "":
		return f.Root(), name, nil
	}
	p, err := f.walk(ctx, head, true)
	return p.node.Handle, name, err
}

// lookup is LOOKUP, and GETATTR if the server left the attributes out.
func (f *FS) lookup(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	res, err := f.c.Lookup(ctx, dir, name)
	if err != nil {
		return Node{}, err
	}
	return f.node(ctx, res.Object, &res.ObjAttr)
}

// node returns the object with its attributes, and asks the server for them if
// attr is not OK.
func (f *FS) node(ctx context.Context, object nfs3.FH, attr *nfs3.PostOpAttr) (n Node, err error) {
	n = Node{Handle: object, Attr: attr.Attr}
	if !attr.OK {
		n.Attr, err = f.c.GetAttr(ctx, object)
	}
	return n, err
}

// A walker follows a path.
type walker struct {
	f      *FS
	dirs   []nfs3.FH // from the export's root to the current directory
	rest   string    // rest of the path
	follow bool
	links  int // followed so far

	// make, if not nil, creates missing directories.
	make func(ctx context.Context, dir nfs3.FH, name string) (Node, error)
}

func (w *walker) walk(ctx context.Context) (place, error) {
	for {
		name, behind := w.next()
		dir := w.dirs[len(w.dirs)-1]
		switch name {
		case "":
			attr, err := w.f.c.GetAttr(ctx, dir)
			return place{dirs: w.dirs, slash: true, node: Node{dir, attr}}, err
		case "..":
			if len(w.dirs) == 1 {
				return place{}, errOutside
			}
			w.dirs, w.rest = w.dirs[:len(w.dirs)-1], behind
			continue
		}
		node, err := w.step(ctx, dir, name)
		if err != nil {
			return place{}, err
		}
		isLink := node.Attr.Type == nfs3.TypeLnk
		last := strings.Trim(behind, "/") == ""
		if last && !(isLink && (w.follow || behind != "")) {
			return place{dirs: w.dirs, name: name, slash: behind != "", node: node}, nil
		}
		if err := w.enter(ctx, node, behind); err != nil {
			return place{}, err
		}
	}
}

// next returns the next name on the path, "" at the end, and the rest of the
// path behind the name.
func (w *walker) next() (name, behind string) {
	for {
		w.rest = strings.TrimLeft(w.rest, "/")
		i := strings.IndexByte(w.rest+"/", '/')
		if name = w.rest[:i]; name != "." {
			return name, w.rest[i:]
		}
		w.rest = w.rest[i:]
	}
}

// step finds name in dir. A missing name is not an error; the Node then has no
// Handle.
func (w *walker) step(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	node, err := w.f.lookup(ctx, dir, name)
	switch {
	case !errors.Is(err, nfs3.ErrNoEnt):
		return node, err
	case w.make != nil:
		return w.make(ctx, dir, name)
	}
	return Node{}, nil
}

// enter continues the walk behind node.
func (w *walker) enter(ctx context.Context, node Node, behind string) error {
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

func (w *walker) enterLink(ctx context.Context, link nfs3.FH, behind string) error {
	if w.links++; w.links > maxLinks {
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
		inside, ok := w.f.inside(target)
		if !ok {
			return fmt.Errorf("%w: it has a symbolic link to %q", errOutside, target)
		}
		w.dirs, target = w.dirs[:1], inside
	}
	w.rest = target + behind
	return nil
}

// inside returns the path from the export's root to an absolute path on the
// server, or false if that path is not below the export.
func (f *FS) inside(path string) (string, bool) {
	for _, want := range f.path {
		path = strings.TrimLeft(path, "/")
		name, rest, _ := strings.Cut(path, "/")
		if name != want {
			return "", false
		}
		path = rest
	}
	return path, true
}
