package model

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The operations' name space: few names, so that they collide, and files with up to a few
// pages and RPCs.
const (
	depth     = 3       // maximum number of path components
	maxLength = 70_000  // bytes written or read at a time
	maxOffset = 150_000 // bytes
	epoch     = 1_500_000_000_000_000_000
)

var names = []string{"a", "b", "c", "d", "e"}

// A Source makes random operations.
type Source struct {
	r     *rand.Rand
	kinds []Kind
	path  func(r *rand.Rand) string
}

// Anything returns a source for all kinds of operations in a tree with a few
// names.
func Anything(seed uint64) *Source {
	return &Source{r: rand.New(rand.NewPCG(seed, 1)), kinds: weightedKinds(weights), path: rarePath}
}

// Contents returns a source for operations on a few files' content. Each
// operation opens its file anew, so that even caching mounts must agree on the
// content.
func Contents(seed uint64) *Source {
	w := map[Kind]int{Write: 3, Append: 2, Rewrite: 2, Read: 5}
	return &Source{r: rand.New(rand.NewPCG(seed, 2)), kinds: weightedKinds(w), path: randomName}
}

// Looks returns a source for all kinds of operations, most of which look at other
// operations' results.
func Looks(seed uint64) *Source {
	w := maps.Clone(weights)
	w[Reopen], w[Stat], w[List] = 60, 25, 15
	return &Source{r: rand.New(rand.NewPCG(seed, 4)), kinds: weightedKinds(w), path: commonPath}
}

// Sights returns the operations that create the initial objects for a source from
// Looks.
func Sights() []Op {
	return []Op{
		{Kind: Create, Path: "a", Mode: 0o644},
		{Kind: Mkdir, Path: "b", Mode: 0o755},
		{Kind: Create, Path: "b/a", Mode: 0o644},
		{Kind: Mkdir, Path: "b/b", Mode: 0o755},
	}
}

// ContentLooks returns a source for operations on a few files' content, most of which
// look at content and length.
func ContentLooks(seed uint64) *Source {
	w := map[Kind]int{Write: 3, Append: 2, Rewrite: 2, Truncate: 2, Reopen: 12}
	return &Source{r: rand.New(rand.NewPCG(seed, 5)), kinds: weightedKinds(w), path: randomName}
}

// Files returns the operations that create the files for Contents and
// ContentLooks.
func Files() []Op {
	var ops []Op
	for _, name := range names {
		ops = append(ops, Op{Kind: Create, Path: name, Mode: 0o644})
	}
	return ops
}

// many is the number of files for Many.
const many = 200

// Many returns a source like Contents, for many files that are seldom
// written.
func Many(seed uint64) *Source {
	w := map[Kind]int{Write: 1, Append: 1, Rewrite: 1, Read: 17}
	path := func(r *rand.Rand) string { return manyName(r.IntN(many)) }
	return &Source{r: rand.New(rand.NewPCG(seed, 6)), kinds: weightedKinds(w), path: path}
}

func manyName(i int) string { return "file" + strconv.Itoa(i) }

// ManyFiles returns the operations that create the files for Many.
func ManyFiles() []Op {
	var ops []Op
	for i := range many {
		ops = append(ops, Op{Kind: Create, Path: manyName(i), Mode: 0o644})
	}
	return ops
}

// weights are the kinds' frequencies.
var weights = map[Kind]int{
	Create: 8, Write: 8, Append: 4, Rewrite: 6, Read: 10, Truncate: 4, Chmod: 3, Utimes: 3, Stat: 12, Mkdir: 5,
	Rmdir: 10, Symlink: 3, Readlink: 4, Link: 10, Rename: 10, Unlink: 7, List: 8,
}

// weightedKinds returns each kind as often as its weight.
func weightedKinds(weights map[Kind]int) []Kind {
	var kinds []Kind
	for _, k := range []Kind{ // in a fixed order, unlike the map's
		Create, Write, Append, Rewrite, Read, Truncate, Chmod, Utimes, Stat, Mkdir, Rmdir, Symlink, Readlink,
		Link, Rename, Unlink, List, Reopen,
	} {
		for range weights[k] {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// rarePath returns a path that often does not exist.
func rarePath(r *rand.Rand) string { return randomPath(r, names) }

// commonPath returns a path that often exists.
func commonPath(r *rand.Rand) string { return randomPath(r, names[:3]) }

func randomPath(r *rand.Rand, names []string) string {
	// Short paths are more frequent, because they exist more often.
	n := 1 + min(r.IntN(depth), r.IntN(depth+1))
	parts := make([]string, n)
	for i := range parts {
		parts[i] = names[r.IntN(len(names))]
	}
	return strings.Join(parts, "/")
}

func randomName(r *rand.Rand) string { return names[r.IntN(len(names))] }

// next returns the next operation.
func (s *Source) next() Op {
	r := s.r
	o := Op{Kind: s.kinds[r.IntN(len(s.kinds))], Path: s.path(r)}
	switch o.Kind {
	case Create:
		o.Mode, o.Excl = uint32(r.IntN(0o1000)), r.IntN(3) == 0
	case Write, Append, Rewrite, Read, Reopen:
		o.Off, o.Len, o.Data = s.randomOffset(), s.randomLength(), r.Uint64()
		if o.Kind == Rewrite {
			o.Mode = 0o644
		}
		if o.Kind == Append || o.Kind == Rewrite {
			o.Off = 0
		}
		if o.Kind == Read || o.Kind == Reopen {
			o.Data = 0
		}
	case Truncate:
		o.Off = s.randomOffset()
	case Chmod:
		o.Mode = uint32(r.IntN(0o10000))
	case Utimes:
		o.Off = epoch + r.Int64N(epoch/10)
	case Mkdir:
		o.Mode = uint32(r.IntN(0o1000))
	case Symlink, Link, Rename:
		o.To = s.path(r)
	default: // only the path is needed
	}
	return o
}

// randomOffset returns an offset that is often 0 or small, so that pieces overlap.
func (s *Source) randomOffset() int64 {
	switch s.r.IntN(4) {
	case 0:
		return 0
	case 1:
		return s.r.Int64N(100)
	default:
		return s.r.Int64N(maxOffset)
	}
}

func (s *Source) randomLength() int {
	if s.r.IntN(2) == 0 {
		return s.r.IntN(200)
	}
	return s.r.IntN(maxLength)
}
