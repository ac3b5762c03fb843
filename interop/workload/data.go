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

// treeName returns the name of the tree's n-th file.
func treeName(n int) string {
	return fmt.Sprintf("d%02d/f%03d", n/treeFiles, n%treeFiles)
}

// treeSize returns its length in bytes: up to one page, mostly less.
func treeSize(n int) int { return n * 37 % 4099 }

// makeTree creates 5,000 files.
func makeTree(t *T, dir string) {
	for d := range treeDirs {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%02d", d)), 0o755))
	}
	errs := make(chan error, treeJobs)
	for job := range treeJobs {
		go func() {
			errs <- runChecks(func(t *T) {
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
		require.Equal(t, want, listNames(t, filepath.Join(dir, fmt.Sprintf("d%02d", d))))
	}
}

// fileSizes are lengths, in bytes, around limits: empty, a page, one message's data, the
// largest READ or WRITE, several of these.
var fileSizes = []int{0, 1, 3, 511, 3500, 4095, 4096, 4097, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 - 1}

// largeSize is the size of many maximum READs and WRITEs, in bytes.
const largeSize = 64 << 20

func sizeName(n int) string { return fmt.Sprintf("size-%d", n) }

// testSizes writes and reads files with these lengths.
func testSizes(t *T, dir string) {
	for _, n := range fileSizes {
		testSize(t, dir, n)
	}
}

// testLarge writes and reads a file with largeSize bytes.
func testLarge(t *T, dir string) { testSize(t, dir, largeSize) }

func testSize(t *T, dir string, n int) {
	path := filepath.Join(dir, sizeName(n))
	p := patternBytes(patternOf(sizeName(n)), n)
	createFile(t, path, p)
	assert.EqualValues(t, n, lstat(t, path).Size)
	checkContent(t, path, p)
}

// Content checks every byte that the steps tree, sizes and large have left in dir, the
// directory passed to Run.
func Content(dir string) error {
	return runChecks(func(t *T) {
		n := 0
		for _, step := range []string{"tree", "sizes", "large"} {
			top := filepath.Join(dir, step)
			err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					n++
					b, err := os.ReadFile(path)
					require.NoError(t, err)
					name := strings.TrimPrefix(path, top+"/")
					if d := findDifference(patternBytes(patternOf(name), len(b)), b); d != "" {
						t.Errorf("%s: %s", path, d)
					}
				}
				return err
			})
			require.NoError(t, err)
		}
		assert.Equal(t, treeDirs*treeFiles+len(fileSizes)+1, n, "files")
		for i := range treeDirs * treeFiles {
			assert.EqualValues(t, treeSize(i), lstat(t, filepath.Join(dir, "tree", treeName(i))).Size)
		}
		for _, n := range fileSizes {
			assert.EqualValues(t, n, lstat(t, filepath.Join(dir, "sizes", sizeName(n))).Size)
		}
		assert.EqualValues(t, largeSize, lstat(t, filepath.Join(dir, "large", sizeName(largeSize))).Size)
	})
}

// A shadowFile is a file together with its expected content.
type shadowFile struct {
	f    *os.File
	want []byte
}

// writePiece changes a random piece with a random odd length, at most limit bytes.
func (s *shadowFile) writePiece(t *T, r *rand.Rand, limit int) {
	off, n := s.randomPiece(r, limit)
	fillPattern(s.want[off:off+n], r.Uint64(), int64(off))
	_, err := s.f.WriteAt(s.want[off:off+n], int64(off))
	require.NoError(t, err)
}

// checkPiece checks a random piece with a random odd length, at most limit bytes.
func (s *shadowFile) checkPiece(t *T, r *rand.Rand, limit int) {
	off, n := s.randomPiece(r, limit)
	got := make([]byte, n)
	_, err := s.f.ReadAt(got, int64(off))
	require.NoError(t, err)
	s.checkSame(t, off, got)
}

func (s *shadowFile) randomPiece(r *rand.Rand, limit int) (off, n int) {
	n = r.IntN(limit) | 1
	return r.IntN(len(s.want) - n), n
}

func (s *shadowFile) checkSame(t *T, off int, got []byte) {
	if d := findDifference(s.want[off:off+len(got)], got); d != "" {
		t.Errorf("%s from byte %d: %s", s.f.Name(), off, d)
		t.FailNow()
	}
}

// checkAll checks the whole file as the server has it.
func (s *shadowFile) checkAll(t *T) {
	require.NoError(t, s.f.Sync())
	dropCache(t, s.f)
	got := make([]byte, len(s.want))
	_, err := s.f.ReadAt(got, 0)
	require.NoError(t, err)
	s.checkSame(t, 0, got)
}

// testOffsets writes and reads odd lengths at random offsets, through the page
// cache and past the page cache.
func testOffsets(t *T, dir string) {
	const size = 3<<20 + 17 // bytes
	for name, flag := range map[string]int{"cached": 0, "direct": directFlag(t, dir)} {
		r := rand.New(rand.NewPCG(1, patternOf(name)))
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|flag, 0o600)
		require.NoError(t, err)
		s := &shadowFile{f: f, want: patternBytes(2, size)}
		_, err = f.WriteAt(s.want, 0)
		require.NoError(t, err)
		for i := range 300 {
			limit := []int{16, 3000, 9000, 300000}[i%4]
			s.writePiece(t, r, limit)
			s.checkPiece(t, r, limit)
			if i%50 == 49 {
				s.checkAll(t)
			}
		}
		s.checkAll(t)
		require.NoError(t, f.Close())
	}
}

// testParallel runs several writers and readers on one file, each on separate bytes, so
// that many calls are in flight at once.
func testParallel(t *T, dir string) {
	const jobs, part = 8, 512<<10 + 3 // bytes
	path := filepath.Join(dir, "shared")
	createFile(t, path, make([]byte, jobs*part))
	var wg sync.WaitGroup
	errs := make([]error, jobs)
	for job := range jobs {
		wg.Go(func() { errs[job] = runChecks(func(t *T) { writePart(t, path, job, part, directFlag(t, dir)) }) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	var want []byte
	for job := range jobs {
		want = append(want, patternBytes(uint64(job), part)...)
	}
	checkContent(t, path, want)
}

// writePart writes part bytes to a shared file in odd pieces, and reads each back.
func writePart(t *T, path string, job, part, flag int) {
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
		require.Empty(t, findDifference(want[at:at+n], got))
		at += n
	}
	require.NoError(t, f.Sync())
}
