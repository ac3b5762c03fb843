package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

const partSize = 40<<20 + 3 // more than the calls in flight hold

// interruptAfter runs the program and interrupts it when the server has received n calls of
// a procedure. It returns standard error.
func interruptAfter(t *testing.T, r *testServer, proc uint32, n int64, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var seen atomic.Int64
	hold := func(req *oncrpc.Request) bool {
		if !(*matchProc(nfs3.Program, proc))(req) || seen.Add(1) <= n {
			return false
		}
		cancel(errors.New("interrupt signal received"))
		return true
	}
	r.holdCall.Store(&hold)
	defer r.holdCall.Store(nil)
	var errs strings.Builder
	assert.Equal(t, cli.ExitError, run(ctx, args, io.Discard, &errs))
	assert.Contains(t, errs.String(), "mountrdma: interrupt signal received\n")
	return errs.String()
}

// countCalls counts the calls of a procedure until stop is called.
func countCalls(r *testServer, proc uint32) (stop func() int64) {
	var n atomic.Int64
	count := func(req *oncrpc.Request) bool {
		if (*matchProc(nfs3.Program, proc))(req) {
			n.Add(1)
		}
		return false
	}
	r.holdCall.Store(&count)
	return func() int64 { r.holdCall.Store(nil); return n.Load() }
}

func assertContent(t *testing.T, want []byte, path ...string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "content of %s", filepath.Join(path...))
}

// TestCpInterrupted checks that an interrupted copy leaves the old file, and a partial one
// that it names, and that --resume transfers the rest only: to a server, from it, and between
// two.
func TestCpInterrupted(t *testing.T) {
	checkLeaks(t)
	one, two := startTestServer(t), startTestServer(t)
	here := t.TempDir()
	data := randomBytes(partSize, 1)
	writeFile(t, data, here, "f")
	writeFile(t, data, one.dir, "f")
	for _, tt := range []struct {
		name          string
		held          *testServer
		proc          uint32
		src, dst, dir string // dir: of dst
		shown         string
	}{
		{"to a server", two, nfs3.ProcWrite, filepath.Join(here, "f"), two.url + "/up", two.dir, two.url + "/up.part"},
		{"from a server", one, nfs3.ProcRead, one.url + "/f", filepath.Join(here, "up"), here, fmt.Sprintf("%q", filepath.Join(here, "up.part"))},
		{"between servers", two, nfs3.ProcWrite, one.url + "/f", two.url + "/relayed", two.dir, two.url + "/relayed.part"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Base(tt.dst)
			writeFile(t, []byte("old"), tt.dir, name)
			got := interruptAfter(t, tt.held, tt.proc, 25, "cp", tt.src, tt.dst)
			assert.Contains(t, got, "mountrdma: "+tt.shown+": is incomplete: --resume continues it\n")
			assertContent(t, []byte("old"), tt.dir, name)
			assert.FileExists(t, filepath.Join(tt.dir, name+".part"))

			got = mustFail(t, "cp", tt.src, tt.dst)
			assert.Contains(t, got, tt.shown+": exists: a copy was interrupted or is in progress; --resume continues it, or remove the file")
			assertContent(t, []byte("old"), tt.dir, name)

			if tt.proc == nfs3.ProcWrite {
				writes := countCalls(tt.held, nfs3.ProcWrite)
				mustRun(t, "cp", "--resume", tt.src, tt.dst)
				assert.Less(t, writes(), int64(partSize>>20), "only the rest is written")
			} else {
				mustRun(t, "cp", "--resume", tt.src, tt.dst)
			}
			assertContent(t, data, tt.dir, name)
			assert.NoFileExists(t, filepath.Join(tt.dir, name+".part"))
			info, err := os.Stat(filepath.Join(tt.dir, name))
			require.NoError(t, err)
			assert.EqualValues(t, 0o644, info.Mode())
		})
	}
}

// TestCpInterruptedSmall checks that an interrupted copy of a small file leaves nothing.
func TestCpInterruptedSmall(t *testing.T) {
	r := newTestServer(t)
	src := t.TempDir()
	writeFile(t, []byte("small"), src, "f")
	got := interruptAfter(t, r, nfs3.ProcWrite, 0, "cp", src+"/f", r.url)
	assert.Equal(t, "mountrdma: interrupt signal received\n", got)
	assert.Empty(t, snapshotTree(t, r.dir)["f"])
	assert.Len(t, snapshotTree(t, r.dir), 1)
}

// TestCpResumeGap checks that gaps at the end of a partial file, which a crash of the server
// may leave, are filled.
func TestCpResumeGap(t *testing.T) {
	r := newTestServer(t)
	src := t.TempDir()
	data := randomBytes(partSize, 1)
	writeFile(t, data, src, "f")
	interruptAfter(t, r, nfs3.ProcWrite, 30, "cp", src+"/f", r.url)
	part, err := os.OpenFile(filepath.Join(r.dir, "f.part"), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = part.WriteAt(make([]byte, 1<<20), 3<<20)
	require.NoError(t, err)
	require.NoError(t, part.Close())
	mustRun(t, "cp", "--resume", src+"/f", r.url)
	assertContent(t, data, r.dir, "f")
}

// TestCpResumeRefuses checks that a copy never continues what is not its own beginning, and
// leaves it unchanged.
func TestCpResumeRefuses(t *testing.T) {
	const size = 2 << 20
	for _, tt := range []struct {
		name  string
		plant func(t *testing.T, part, src string)
		want  string
	}{
		{"directory", func(t *testing.T, part, _ string) { require.NoError(t, os.Mkdir(part, 0o755)) }, "is not the partial file of an earlier copy"},
		{"symbolic link", func(t *testing.T, part, _ string) { require.NoError(t, os.Symlink("victim", part)) }, "is not the partial file of an earlier copy"},
		{"hard link", func(t *testing.T, part, _ string) {
			require.NoError(t, os.Link(filepath.Join(filepath.Dir(part), "victim"), part))
		}, "is not the partial file of an earlier copy"},
		{"other data", func(t *testing.T, part, _ string) { writeFile(t, []byte("mine"), part) }, "has other data than the source"},
		{"other version", func(t *testing.T, part, src string) { writeFile(t, append(randomBytes(size/2, 1), 'x'), part) }, "has other data than the source"},
		{"longer", func(t *testing.T, part, _ string) { writeFile(t, randomBytes(size+1, 1), part) }, "is not a part of this version of the source"},
	} {
		for _, download := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, " download ", download), func(t *testing.T) {
				r := newTestServer(t)
				here := t.TempDir()
				src, dst, there := here+"/f", r.url, r.dir
				if download {
					src, dst, there = r.url+"/f", here, here
				}
				for _, dir := range []string{here, r.dir} {
					if dir != there {
						writeFile(t, randomBytes(size, 1), dir, "f")
					}
				}
				writeFile(t, []byte("victim"), there, "victim")
				tt.plant(t, filepath.Join(there, "f.part"), src)
				before := snapshotTree(t, there)
				assert.Contains(t, mustFail(t, "cp", "--resume", src, dst), tt.want)
				mustFail(t, "cp", src, dst)
				assert.Equal(t, before, snapshotTree(t, there))
			})
		}
	}
}

// TestCpResumeOtherVersion checks that a source that has changed since the interruption is
// not joined to the old part, and that one that has only grown is with --checksum.
func TestCpResumeOtherVersion(t *testing.T) {
	r := newTestServer(t)
	src := t.TempDir()
	data := randomBytes(partSize, 1)
	writeFile(t, data, src, "f")
	interruptAfter(t, r, nfs3.ProcWrite, 25, "cp", src+"/f", r.url)
	writeFile(t, randomBytes(partSize, 2), src, "f")
	assert.Contains(t, mustFail(t, "cp", "--resume", src+"/f", r.url), "f.part: has other data than the source: it is a part of another version or file; remove it, and copy again")
	assert.NoFileExists(t, filepath.Join(r.dir, "f"))
	grown := append(data, "more"...)
	writeFile(t, grown, src, "f")
	mustRun(t, "cp", "--resume", "--checksum", src+"/f", r.url)
	assertContent(t, grown, r.dir, "f")
}

// TestCpTwice checks that of two copies at once to one name the second is refused, and the
// first unharmed.
func TestCpTwice(t *testing.T) {
	checkLeaks(t)
	r := startTestServer(t)
	here := t.TempDir()
	pipe := filepath.Join(here, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	writeFile(t, []byte("second"), here, "second")
	done := make(chan string, 1)
	go func() {
		var errs strings.Builder
		run(t.Context(), []string{"cp", pipe, r.url + "/f"}, io.Discard, &errs)
		done <- errs.String()
	}()
	source, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = source.WriteString("first")
	require.NoError(t, err)
	part := filepath.Join(r.dir, "f.part")
	require.Eventually(t, func() bool { _, err := os.Stat(part); return err == nil }, 10*time.Second, time.Millisecond)
	assert.Contains(t, mustFail(t, "cp", here+"/second", r.url+"/f"), "f.part: exists")
	require.NoError(t, source.Close())
	assert.Empty(t, <-done)
	assertContent(t, []byte("first"), r.dir, "f")
	mustRun(t, "cp", here+"/second", r.url+"/f")
	assertContent(t, []byte("second"), r.dir, "f")
}

// TestCpFull checks a full file system: the error, the remedy, and the copy once there is
// space.
func TestCpFull(t *testing.T) {
	r := newTestServer(t, func(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) {
		c.Exports[0].FS = mem.New(mem.Options{Size: 48 << 20})
	})
	src := t.TempDir()
	data := randomBytes(partSize, 1)
	writeFile(t, randomBytes(16<<20, 2), src, "ballast")
	writeFile(t, data, src, "f")
	mustRun(t, "cp", src+"/ballast", r.url)
	got := mustFail(t, "cp", src+"/f", r.url)
	assert.Contains(t, got, r.url+"/f: no space left on device (NFS3ERR_NOSPC)\n")
	assert.Contains(t, got, r.url+"/f.part: is incomplete: --resume continues it\n")
	mustRun(t, "rm", r.url+"/ballast")
	mustRun(t, "cp", "--resume", src+"/f", r.url)
	assert.Equal(t, string(data), mustRun(t, "cat", r.url+"/f"))
}

// TestCpLongName checks names that leave no space for the suffix.
func TestCpLongName(t *testing.T) {
	r := newTestServer(t)
	src, back := t.TempDir(), t.TempDir()
	for i, name := range []string{strings.Repeat("a", 255), strings.Repeat("a", 254) + "b", strings.Repeat("é", 127), strings.Repeat("\xff", 251), strings.Repeat("c", 129)} {
		writeFile(t, []byte{byte(i)}, src, "t", name)
	}
	mustRun(t, "cp", "-r", src+"/t", r.url)
	mustRun(t, "cp", "-r", r.url+"/t", back)
	assert.Equal(t, snapshotTree(t, src), snapshotTree(t, back))
}

// TestCpLostReplies checks that CREATE and RENAME calls whose replies are lost in a restart,
// with the server's memory of retransmitted calls, succeed when they are sent again.
func TestCpLostReplies(t *testing.T) {
	checkLeaks(t)
	dir, src := t.TempDir(), t.TempDir()
	files, err := posix.Open(dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, files.Close()) })
	restart := make(chan struct{})
	lost := map[uint32]*atomic.Bool{nfs3.ProcCreate: {}, nfs3.ProcRename: {}}
	r := newRestartableServer(t, func() oncrpc.Service {
		mux := new(oncrpc.Mux)
		nfs, err := nfsserver.New(nfsserver.Config{
			Exports: []nfsserver.Export{{Path: "/x", FS: files, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}},
			Key:     [32]byte{1}, Log: slog.New(slog.DiscardHandler),
		})
		assert.NoError(t, err)
		nfs.Register(mux)
		return &replyLoser{mux, lost, restart}
	})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range restart {
			r.restartServer()
		}
	}()
	writeFile(t, []byte("data"), src, "f")
	mustRun(t, "cp", src+"/f", scheme+r.addr+"/x")
	close(restart)
	<-over
	assert.EqualValues(t, 2, r.restarts.Load())
	assertContent(t, []byte("data"), dir, "f")
	assert.Len(t, snapshotTree(t, dir), 2)
}

// A replyLoser executes the first call of some procedures, and restarts the server instead
// of replying.
type replyLoser struct {
	oncrpc.Service
	lost    map[uint32]*atomic.Bool
	restart chan<- struct{}
}

func (s *replyLoser) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	replied := s.Service.Serve(ctx, req, rep)
	if lost := s.lost[uint32(req.Msg[23])]; lost != nil && (*matchProc(nfs3.Program, uint32(req.Msg[23])))(req) && !lost.Swap(true) {
		s.restart <- struct{}{}
		<-ctx.Done()
		return false
	}
	return replied
}

// TestCpSelects checks --update, --checksum, --exclude and --dry-run.
func TestCpSelects(t *testing.T) {
	r := newTestServer(t)
	src := filepath.Join(t.TempDir(), "t")
	for _, name := range []string{"a", "b.o", "d/c", "d/e.o", "d/f/g", "h/e.o"} {
		writeFile(t, []byte(name), src, name)
	}
	require.NoError(t, os.Symlink("a", filepath.Join(src, "l")))
	assert.Equal(t, []string{
		src + " -> " + r.url + "/t",
		src + "/a -> " + r.url + "/t/a",
		src + "/d -> " + r.url + "/t/d",
		src + "/d/c -> " + r.url + "/t/d/c",
		src + "/d/e.o -> " + r.url + "/t/d/e.o",
		src + "/l -> " + r.url + "/t/l",
	}, sortedLines(mustRun(t, "cp", "-r", "-n", "--jobs=1", "--exclude=b.*", "--exclude=d/f", "--exclude=/h", src, r.url)))
	assert.NoDirExists(t, filepath.Join(r.dir, "t"))

	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	assert.Equal(t, fifo+" -> "+r.url+"/fifo\n", mustRun(t, "cp", "-n", fifo, r.url), "without waiting for a writer")

	mustRun(t, "cp", "-r", "--exclude=*.o", src, r.url)
	there := filepath.Join(r.dir, "t")
	for name, copied := range map[string]bool{"a": true, "b.o": false, "d/c": true, "d/e.o": false, "d/f/g": true, "h": true, "h/e.o": false} {
		_, err := os.Stat(filepath.Join(there, name))
		assert.Equal(t, copied, err == nil, name)
	}

	future, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	writeFile(t, []byte("X"), there, "a") // newer than its source, and different
	require.NoError(t, os.Chtimes(filepath.Join(there, "a"), future, future))
	require.NoError(t, os.Chtimes(filepath.Join(there, "d/c"), past, past)) // older, and equal
	planned := func(args ...string) []string {
		var names []string
		for _, line := range sortedLines(mustRun(t, append([]string{"cp", "-r", "-n", "--exclude=*.o", "--exclude=l", src, r.url}, args...)...)) {
			names = append(names, strings.TrimPrefix(line[strings.LastIndexByte(line, ' ')+1:], r.url+"/t/"))
		}
		return names
	}
	assert.Equal(t, []string{"a", "d/c", "d/f/g"}, planned())
	assert.Equal(t, []string{"d/c"}, planned("--update"))
	assert.Equal(t, []string{"a"}, planned("--checksum"))
	mustRun(t, "cp", "-r", "--checksum", src, r.url)
	assertContent(t, []byte("a"), there, "a")
}

func sortedLines(s string) []string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// TestCpStreams checks standard input and output.
func TestCpStreams(t *testing.T) {
	r := newTestServer(t)
	data := randomBytes(3<<20+1, 1)
	var out, errs bytes.Buffer
	a := newApp(&out, &errs)
	a.stdin = bytes.NewReader(data)
	defer a.closeSessions()
	require.Equal(t, cli.ExitOK, cli.Run(t.Context(), a.newRoot(), []string{"cp", "-v", "-", r.url + "/f"}, &out, &errs), errs.String())
	assert.Regexp(t, `^1 file, 3\.0 MiB in .*s, .*B/s\n$`, errs.String())
	assertContent(t, data, r.dir, "f")
	assert.Equal(t, string(data), mustRun(t, "cp", r.url+"/f", "-"))
	writeFile(t, []byte("small"), r.dir, "s")
	assert.Equal(t, "small", mustRun(t, "cp", r.url+"/s", "-"))

	for _, args := range [][]string{
		{"-", r.url},
		{"-", r.url + "/"},
		{"-r", "-", r.url + "/g"},
		{"--resume", "-", r.url + "/g"},
		{r.url + "/f", r.url + "/s", "-"},
		{"--update", r.url + "/f", "-"},
		{"-", "-"},
		{"--exclude=[", "a", r.url},
	} {
		status, _, stderr := runCommand(t, append([]string{"cp"}, args...)...)
		if args[len(args)-1] == r.url && args[0] == "-" { // the server knows that it is a directory
			assert.Equal(t, cli.ExitError, status, args)
		} else {
			assert.Equal(t, cli.ExitUsage, status, args)
		}
		assert.NotEmpty(t, stderr, args)
	}
}

// TestCpResumeHole checks that data of an older version does not stay where the source has
// a hole.
func TestCpResumeHole(t *testing.T) {
	r := newTestServer(t)
	here := t.TempDir()
	const equal, size = 2 << 20, 8 << 20
	data := randomBytes(size, 1)
	for src, dst := range map[string]string{here + "/up": r.url, r.url + "/down": here} {
		from, to, name := here, r.dir, "up"
		if dst == here {
			from, to, name = r.dir, here, "down"
		}
		writeFile(t, data[:equal], from, name)
		require.NoError(t, os.Truncate(filepath.Join(from, name), size))
		writeFile(t, data, to, name+".part")
		mustRun(t, "cp", "--resume", "--checksum", src, dst)
		assertContent(t, append(bytes.Clone(data[:equal]), make([]byte, size-equal)...), to, name)
	}
}

// TestCpKeepsMode checks that a file that is replaced keeps its mode, and what a symbolic
// link leads to.
func TestCpKeepsMode(t *testing.T) {
	r := newTestServer(t)
	here := t.TempDir()
	for _, dir := range []string{r.dir, here} {
		for name, mode := range map[string]fs.FileMode{"private": 0o600, "public": 0o666, "shown": 0o604} {
			writeFile(t, []byte("old"), dir, name)
			require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
		}
		require.NoError(t, os.Symlink("shown", filepath.Join(dir, "link")))
		writeFile(t, []byte("new"), dir, "src")
		require.NoError(t, os.Chmod(filepath.Join(dir, "src"), 0o444))
	}
	for _, name := range []string{"private", "public", "link"} {
		mustRun(t, "cp", here+"/src", r.url+"/"+name)
		mustRun(t, "cp", r.url+"/src", filepath.Join(here, name))
	}
	for _, dir := range []string{r.dir, here} {
		for name, want := range map[string]fs.FileMode{"private": 0o600, "public": 0o666, "link": 0o604} {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			assert.Equal(t, want, info.Mode(), filepath.Join(dir, name))
			assertContent(t, []byte("new"), dir, name)
		}
	}
}

// TestCpUpdateLinks checks that --update leaves a newer file alone that has the name of a
// hard link.
func TestCpUpdateLinks(t *testing.T) {
	r := newTestServer(t)
	src := t.TempDir()
	writeFile(t, []byte("old"), src, "t", "a")
	past := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(src+"/t/a", past, past))
	require.NoError(t, os.Link(src+"/t/a", src+"/t/b"))
	writeFile(t, []byte("newer"), r.dir, "t", "a")
	writeFile(t, []byte("newest"), r.dir, "t", "b")
	mustRun(t, "cp", "-r", "--update", src+"/t", r.url)
	assertContent(t, []byte("newer"), r.dir, "t", "a")
	assertContent(t, []byte("newest"), r.dir, "t", "b")
}

// TestCpResumeOwner checks that a copy does not write into another user's file.
func TestCpResumeOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	r := newTestServer(t)
	here := t.TempDir()
	for src, dst := range map[string]string{here + "/up": r.url, r.url + "/down": here} {
		from, part := filepath.Join(here, "up"), filepath.Join(r.dir, "up.part")
		if dst == here {
			from, part = filepath.Join(r.dir, "down"), filepath.Join(here, "down.part")
		}
		writeFile(t, []byte("secret"), from)
		writeFile(t, nil, part)
		require.NoError(t, os.Chown(part, 12345, -1))
		assert.Contains(t, mustFail(t, "cp", "--resume", src, dst), "is another user's file: rename or remove it")
		assertContent(t, nil, part)
	}
}

// TestCpResumeChanges checks that a resumed copy fails if its source changes meanwhile, or
// another copy writes the partial file.
func TestCpResumeChanges(t *testing.T) {
	r := newTestServer(t)
	here := t.TempDir()
	part := filepath.Join(r.dir, "f.part")
	data := randomBytes(4<<20, 1)
	for _, tt := range []struct {
		proc          uint32 // whose first call the change precedes
		changed, want string
	}{
		{nfs3.ProcWrite, filepath.Join(here, "f"), "changed while it was copied"},
		{nfs3.ProcRead, part, "another copy is writing it"},
	} {
		writeFile(t, data, here, "f")
		writeFile(t, data[:2<<20], part)
		var once sync.Once
		change := func(req *oncrpc.Request) bool {
			if (*matchProc(nfs3.Program, tt.proc))(req) {
				once.Do(func() {
					f, err := os.OpenFile(tt.changed, os.O_WRONLY|os.O_APPEND, 0)
					if assert.NoError(t, err) {
						_, err = f.WriteString("more")
						assert.NoError(t, errors.Join(err, f.Close()))
					}
				})
			}
			return false
		}
		r.holdCall.Store(&change)
		assert.Contains(t, mustFail(t, "cp", "--resume", here+"/f", r.url), tt.want)
		r.holdCall.Store(nil)
		assert.NoFileExists(t, filepath.Join(r.dir, "f"))
	}
}
