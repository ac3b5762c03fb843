package workload

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	treeDirs  = 50
	treeFiles = 100 // in each directory
	treeJobs  = 4   // at once
)

// treeName returns the name of the n-th file of the tree.
func treeName(n int) string {
	return fmt.Sprintf("d%02d/f%03d", n/treeFiles, n%treeFiles)
}

// treeSize returns its length in bytes: up to one page, mostly less.
func treeSize(n int) int { return n * 37 % 4099 }

// tree makes 5,000 files.
func tree(t *T, dir string) {
	for d := range treeDirs {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%02d", d)), 0o755))
	}
	errs := make(chan error, treeJobs)
	for job := range treeJobs {
		go func() {
			errs <- check(func(t *T) {
				for n := job; n < treeDirs*treeFiles; n += treeJobs {
					p := patternBytes(patternOf(treeName(n)), treeSize(n))
					require.NoError(t, os.WriteFile(filepath.Join(dir, treeName(n)), p, 0o644))
				}
			})
		}()
	}
	for range treeJobs {
		require.NoError(t, <-errs)
	}
	for d := range treeDirs {
		var want []string
		for f := range treeFiles {
			want = append(want, fmt.Sprintf("f%03d", f))
		}
		require.Equal(t, want, list(t, filepath.Join(dir, fmt.Sprintf("d%02d", d))))
	}
}

// fileSizes are lengths, in bytes, around limits: empty, a page, the data of
// one message, the largest READ or WRITE, several of these.
var fileSizes = []int{0, 1, 3, 511, 3500, 4095, 4096, 4097, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 - 1}

// largeSize is many of the largest READs and WRITEs, in bytes.
const largeSize = 64 << 20

func sizeName(n int) string { return fmt.Sprintf("size-%d", n) }

// sizes writes and reads files of these lengths.
func sizes(t *T, dir string) {
	for _, n := range fileSizes {
		sized(t, dir, n)
	}
}

// large writes and reads a file of largeSize.
func large(t *T, dir string) { sized(t, dir, largeSize) }

func sized(t *T, dir string, n int) {
	path := filepath.Join(dir, sizeName(n))
	p := patternBytes(patternOf(sizeName(n)), n)
	create(t, path, p)
	assert.EqualValues(t, n, stat(t, path).Size)
	holds(t, path, p)
}

// Content checks every byte that the steps tree, sizes and large have left in dir, the
// directory passed to Run.
func Content(dir string) error {
	return check(func(t *T) {
		n := 0
		for _, step := range []string{"tree", "sizes", "large"} {
			top := filepath.Join(dir, step)
			err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					n++
					b, err := os.ReadFile(path)
					require.NoError(t, err)
					name := strings.TrimPrefix(path, top+"/")
					if d := differ(patternBytes(patternOf(name), len(b)), b); d != "" {
						t.Errorf("%s: %s", path, d)
					}
				}
				return err
			})
			require.NoError(t, err)
		}
		assert.Equal(t, treeDirs*treeFiles+len(fileSizes)+1, n, "files")
		for i := range treeDirs * treeFiles {
			assert.EqualValues(t, treeSize(i), stat(t, filepath.Join(dir, "tree", treeName(i))).Size)
		}
		for _, n := range fileSizes {
			assert.EqualValues(t, n, stat(t, filepath.Join(dir, "sizes", sizeName(n))).Size)
		}
		assert.EqualValues(t, largeSize, stat(t, filepath.Join(dir, "large", sizeName(largeSize))).Size)
	})
}

// A shadow is a file together with its expected content.
type shadow struct {
	f    *os.File
	want []byte
}

// write changes a random piece of random odd length, at most limit bytes.
func (s *shadow) write(t *T, r *rand.Rand, limit int) {
	off, n := s.piece(r, limit)
	fill(s.want[off:off+n], r.Uint64(), int64(off))
	_, err := s.f.WriteAt(s.want[off:off+n], int64(off))
	require.NoError(t, err)
}

// read checks a random piece of random odd length, at most limit bytes.
func (s *shadow) read(t *T, r *rand.Rand, limit int) {
	off, n := s.piece(r, limit)
	got := make([]byte, n)
	_, err := s.f.ReadAt(got, int64(off))
	require.NoError(t, err)
	s.same(t, off, got)
}

func (s *shadow) piece(r *rand.Rand, limit int) (off, n int) {
	n = r.IntN(limit) | 1
	return r.IntN(len(s.want) - n), n
}

func (s *shadow) same(t *T, off int, got []byte) {
	if d := differ(s.want[off:off+len(got)], got); d != "" {
		t.Errorf("%s from byte %d: %s", s.f.Name(), off, d)
		t.FailNow()
	}
}

// all checks the server's content of the whole file.
func (s *shadow) all(t *T) {
	require.NoError(t, s.f.Sync())
	forget(t, s.f)
	got := make([]byte, len(s.want))
	_, err := s.f.ReadAt(got, 0)
	require.NoError(t, err)
	s.same(t, 0, got)
}

// offsets writes and reads odd lengths at random offsets, through the page
// cache and past the page cache.
func offsets(t *T, dir string) {
	const size = 3<<20 + 17 // bytes
	for name, flag := range map[string]int{"cached": 0, "direct": direct(t, dir)} {
		r := rand.New(rand.NewPCG(1, patternOf(name)))
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|flag, 0o600)
		require.NoError(t, err)
		s := &shadow{f: f, want: patternBytes(2, size)}
		_, err = f.WriteAt(s.want, 0)
		require.NoError(t, err)
		for i := range 300 {
			limit := []int{16, 3000, 9000, 300000}[i%4]
			s.write(t, r, limit)
			s.read(t, r, limit)
			if i%50 == 49 {
				s.all(t)
			}
		}
		s.all(t)
		require.NoError(t, f.Close())
	}
}

// parallel runs several writers and readers on one file, each on separate
// bytes, so that many calls are under way at once.
func parallel(t *T, dir string) {
	const jobs, part = 8, 512<<10 + 3 // bytes
	path := filepath.Join(dir, "shared")
	create(t, path, make([]byte, jobs*part))
	var wg sync.WaitGroup
	errs := make([]error, jobs)
	for job := range jobs {
		wg.Go(func() { errs[job] = check(func(t *T) { onePart(t, path, job, part, direct(t, dir)) }) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	var want []byte
	for job := range jobs {
		want = append(want, patternBytes(uint64(job), part)...)
	}
	holds(t, path, want)
}

// onePart writes part bytes of a shared file in odd pieces, reading each back.
func onePart(t *T, path string, job, part, flag int) {
	f, err := os.OpenFile(path, os.O_RDWR|flag, 0)
	require.NoError(t, err)
	defer f.Close()
	want := patternBytes(uint64(job), part)
	for at := 0; at < part; {
		n := min(40961+2*job, part-at)
		_, err := f.WriteAt(want[at:at+n], int64(job*part+at))
		require.NoError(t, err)
		got := make([]byte, n)
		_, err = f.ReadAt(got, int64(job*part+at))
		require.NoError(t, err)
		require.Empty(t, differ(want[at:at+n], got))
		at += n
	}
	require.NoError(t, f.Sync())
}
