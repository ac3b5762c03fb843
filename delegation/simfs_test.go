package delegation

import (
	"fmt"
	"slices"
	"time"
)

// A tree is a file system of two directories with a complete history.
type tree struct {
	s     *sim
	dirs  [2]*simDir
	files []*simFile
}

type simDir struct {
	key   string
	names [3]past[*simFile] // nil: no such name
}

type simFile struct {
	key    string
	id     int
	data   past[string]
	ctime  int64
	writes int
}

// A past is a value with its history.
type past[T comparable] struct{ was []was[T] }

type was[T comparable] struct {
	since int // sim.n
	v     T
}

func (p *past[T]) now() T { return p.was[len(p.was)-1].v }

func (p *past[T]) set(s *sim, v T) { p.was = append(p.was, was[T]{s.n, v}) }

// had reports whether the value was v at some time between two events.
func (p *past[T]) had(v T, from, to int) bool {
	for i, w := range p.was {
		if w.v == v && w.since <= to && (i == len(p.was)-1 || p.was[i+1].since >= from) {
			return true
		}
	}
	return false
}

func newTree(s *sim) *tree {
	t := &tree{s: s}
	t.file() // always at least one file, possibly without a name
	for i := range t.dirs {
		t.dirs[i] = &simDir{key: simKey("dir", i)}
		for n := range t.dirs[i].names {
			var f *simFile
			if s.chance(2) {
				f = t.file()
			}
			t.dirs[i].names[n].set(s, f)
		}
	}
	return t
}

// file makes a file without a name.
func (t *tree) file() *simFile {
	f := &simFile{key: simKey("file", len(t.files)), id: len(t.files)}
	t.files = append(t.files, f)
	f.data.set(t.s, "")
	t.touch(f)
	return f
}

// wall is the server's clock; the times of files advance in ticks of 10 ms.
func (t *tree) wall() int64 { return int64(1_700_000_000*time.Second + t.s.now) }

func (t *tree) touch(f *simFile) {
	const tick = int64(10 * time.Millisecond)
	f.ctime = t.wall() / tick * tick
}

func (t *tree) stamp(f *simFile) Stamp {
	return Stamp{Size: uint64(len(f.data.now())), MTime: f.ctime, CTime: f.ctime}
}

// write gives f new data, unlike any earlier data of f but of the same length.
func (t *tree) write(f *simFile) {
	f.writes++
	f.data.set(t.s, fmt.Sprintf("%d.%04d", f.id, f.writes))
	t.touch(f)
}

func (t *tree) truncate(f *simFile) {
	f.data.set(t.s, "")
	t.touch(f)
}

// A place is a name in a directory.
type place struct{ dir, name int }

func (t *tree) at(p place) *past[*simFile] { return &t.dirs[p.dir].names[p.name] }

// opKind is the kind of a change.
type opKind int

const (
	opWrite opKind = iota // the file
	opTruncate
	opCreate // the place from; truncates an existing file
	opUnlink
	opRename // the place from, to the place to
	opKinds
)

// A simOp is one change.
type simOp struct {
	kind     opKind
	file     *simFile
	from, to place
}

func (o *simOp) String() string {
	switch o.kind {
	case opWrite, opTruncate:
		return fmt.Sprintf("op %d of %s", o.kind, o.file.key)
	}
	return fmt.Sprintf("op %d of %v to %v", o.kind, o.from, o.to)
}

// objects returns the objects that the change currently affects.
func (t *tree) objects(o *simOp) (keys []string) {
	add := func(f *simFile) {
		if f != nil {
			keys = append(keys, f.key)
		}
	}
	switch o.kind {
	case opWrite, opTruncate:
		add(o.file)
	case opCreate, opUnlink:
		keys = append(keys, t.dirs[o.from.dir].key)
		add(t.at(o.from).now())
	case opRename:
		keys = append(keys, t.dirs[o.from.dir].key, t.dirs[o.to.dir].key)
		add(t.at(o.from).now())
		add(t.at(o.to).now())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// make makes the change.
func (t *tree) make(o *simOp) {
	switch o.kind {
	case opWrite:
		t.write(o.file)
	case opTruncate:
		t.truncate(o.file)
	case opCreate:
		if f := t.at(o.from).now(); f != nil {
			t.truncate(f)
		} else {
			t.at(o.from).set(t.s, t.file())
		}
	case opUnlink:
		if f := t.at(o.from).now(); f != nil {
			t.at(o.from).set(t.s, nil)
			t.touch(f)
		}
	case opRename:
		f, over := t.at(o.from).now(), t.at(o.to).now()
		if f == nil || f == over {
			return
		}
		t.at(o.from).set(t.s, nil)
		t.at(o.to).set(t.s, f)
		t.touch(f)
		if over != nil {
			t.touch(over)
		}
	}
}
