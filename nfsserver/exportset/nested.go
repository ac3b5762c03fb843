package exportset

import (
	"context"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A pathStep is a name on the way from an export's root to the exports below it.
type pathStep struct {
	name        string
	steps       []*pathStep
	export      *Exported // the export there, or nil
	unavailable bool      // leads to an export that is unavailable
}

// addPath adds the path of an export below s.
func (s *pathStep) addPath(names []string, e *Exported) {
	s.unavailable = s.unavailable || e.isUnavailable
	if len(names) == 0 {
		s.export = e
		return
	}
	i := slices.IndexFunc(s.steps, func(n *pathStep) bool { return n.name == names[0] })
	if i < 0 {
		i = len(s.steps)
		s.steps = append(s.steps, &pathStep{name: names[0]})
	}
	s.steps[i].addPath(names[1:], e)
}

// namesBelow returns the names on the path from another export's root to e, or none.
func (e *Exported) namesBelow(upper *Exported) []string {
	rest, ok := strings.CutPrefix(e.Path, strings.TrimSuffix(upper.Path, "/")+"/")
	if !ok || rest == "" {
		return nil
	}
	return strings.Split(rest, "/")
}

// linkNested records in each export of a new snapshot the paths to the exports below it.
func (set *Snapshot) linkNested() {
	for _, e := range set.list {
		for _, other := range set.list {
			names := other.namesBelow(e)
			if len(names) == 0 {
				continue
			}
			e.nested.addPath(names, other)
			if other.upper == nil || len(e.Path) > len(other.upper.Path) {
				other.upper = e
			}
		}
	}
}

// superuser searches the directories between exports, whatever the caller may search.
var superuser vfs.Cred

// checkNotNested returns Access if a name refers to a directory that contains an export, or to
// one on the way to it: if the directory got another name or place, clients would reach the
// lower export's files with the upper export's rights only, whatever the lower one requires. It
// queries the file system only about names that occur in the path to an export.
func (q *Request) checkNotNested(ctx context.Context, p Place) error {
	return q.checkSteps(ctx, &q.Export.nested, nil, p)
}

func (q *Request) checkSteps(ctx context.Context, s *pathStep, names []string, p Place) error {
	for _, next := range s.steps {
		path := append(names[:len(names):len(names)], next.name)
		if strings.EqualFold(next.name, p.Name) && q.isSamePlace(ctx, path, p, next.unavailable) { // a file system may ignore case
			return Access
		}
		if err := q.checkSteps(ctx, next, path, p); err != nil {
			return err
		}
	}
	return nil
}

// checkCreatesNoStep returns Access if a name that does not exist is that of a directory that leads
// to an unavailable export: a client could place a symbolic link where the server looks for an
// export's missing directory.
func (q *Request) checkCreatesNoStep(ctx context.Context, p Place) error {
	err := q.checkNotNested(ctx, p)
	if err != nil {
		if _, _, found, _ := q.lookupOptional(ctx, p); found {
			return nil // the file system rejects the call, or changes nothing
		}
	}
	return err
}

// isSamePlace reports whether a path below the export's root and a name in a directory refer to
// the same object, or, if missing is set, would if it existed.
func (q *Request) isSamePlace(ctx context.Context, path []string, p Place, missing bool) bool {
	fs := q.Export.FS
	parents, last := path[:len(path)-1], path[len(path)-1]
	dir := fs.Root()
	for _, name := range parents {
		var err error
		if dir, _, _, err = fs.Lookup(ctx, &superuser, dir, name); err != nil {
			return false
		}
	}
	step, _, _, err := fs.Lookup(ctx, &superuser, dir, last)
	if err != nil {
		return missing && dir == p.Dir
	}
	h, _, _, err := fs.Lookup(ctx, &superuser, p.Dir, p.Name)
	return err == nil && h == step
}
