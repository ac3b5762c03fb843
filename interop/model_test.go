//go:build interop

package interop

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop/model"
)

// coherent holds the options of mounts that cache neither attributes nor names.
const coherent = "noac,lookupcache=none"

// modelSeed begins with operations that once met a negative entry in Linux's
// cache.
const modelSeed = 1795243632417225068

// TestModel does random operations by two mounts of this host and one of Linux
// in the guest, and checks each result against the model. INTEROP_SOAK is the
// duration, and each soak does other operations; without it, the test repeats
// the same minute. INTEROP_SEED repeats a run.
func TestModel(t *testing.T) {
	guest(t)
	length := soakTime(t, 30*time.Second)
	seed := uint64(modelSeed)
	if os.Getenv("INTEROP_SOAK") != "" {
		seed = uint64(time.Now().UnixNano())
	}
	if v := os.Getenv("INTEROP_SEED"); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err, "INTEROP_SEED")
	}
	t.Logf("INTEROP_SEED=%d repeats this", seed)
	d := serve(t, "--no-root-squash")
	t.Run("coherent", func(t *testing.T) {
		w := windows(t, d, coherent)
		t.Run("together", func(t *testing.T) { together(t, w, seed, length*5/8) })
		t.Run("apart", func(t *testing.T) { apart(t, w, seed, length/8) })
		w.close(t)
	})
	t.Run("cached", func(t *testing.T) {
		w := windows(t, d)
		contents(t, w, seed, length/4)
		w.close(t)
	})
}

// soakTime returns INTEROP_SOAK, or the given default.
func soakTime(t *testing.T, short time.Duration) time.Duration {
	v := os.Getenv("INTEROP_SOAK")
	if v == "" {
		return short
	}
	length, err := time.ParseDuration(v)
	require.NoError(t, err, "INTEROP_SOAK")
	return length
}

// views holds three mounts of one served directory.
type views struct {
	served string
	fuse   [2]*fuseMount
	linux  *Session // guestwork model in the guest
	mounts []model.Mount
	ends   []func() // end the players on the mounts of this host
}

// windows mounts d three times.
func windows(t *testing.T, d *daemon, options ...string) *views {
	s := shop{addr: d.rdma, site: d.site()}
	return windowsOf(t, d.dir, [2]shop{s, s}, options, options)
}

// windowsOf mounts a served directory through each shop, and by Linux.
func windowsOf(t *testing.T, served string, shops [2]shop, options, linuxOptions []string) *views {
	v := &views{served: served}
	for i := range v.fuse {
		m := shops[i].fuse(t, options...)
		v.fuse[i] = m
		v.addFUSE(t, i)
	}
	s := shops[0].site
	s.mount(t, "/mnt", s.options("rdma", linuxOptions...))
	var err error
	v.linux, err = guest(t).Open(t.Context(), "exec guestwork model /mnt")
	require.NoError(t, err)
	t.Cleanup(v.linux.Close)
	v.add("linux", v.linux, v.linux.Close)
	linux := v.mounts[len(v.mounts)-1].Player.(*again)
	linux.Player = wary{linux.Player}
	return v
}

// addFUSE adds a player on a mount of this host.
func (v *views) addFUSE(t *testing.T, i int) {
	m := v.fuse[i]
	// On SIGQUIT, a hanging mountrdma prints its goroutines.
	v.add("fuse"+strconv.Itoa(i), v.player(t, m.point), func() { m.proc.Signal(syscall.SIGQUIT) })
}

func (v *views) add(name string, rw io.ReadWriter, stop func()) {
	v.mounts = append(v.mounts, model.Mount{Name: name, Player: &again{Player: impatient{model.NewRemote(rw), stop}}})
}

// player starts guestwork in a directory of this host, most often a mount. It
// is a process because a hanging process can be killed.
func (v *views) player(t *testing.T, point string) io.ReadWriter {
	fromIt, out, err := os.Pipe()
	require.NoError(t, err)
	in, toIt, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(program("guestwork"), "model", point)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
	p, err := StartProcess(cmd)
	in.Close()
	out.Close()
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		toIt.Close()
		fromIt.Close()
	})
	v.ends = append(v.ends, func() {
		assert.NoError(t, toIt.Close())
		assert.Zero(t, p.ExitCode())
	})
	return struct {
		io.Reader
		io.Writer
	}{fromIt, toIt}
}

// opLimit bounds one operation, on a guest that may be very slow.
const opLimit = time.Minute

// An impatient player stops a player that does not answer.
type impatient struct {
	model.Player
	stop func()
}

func (p impatient) Do(o model.Op) (model.Result, error) {
	defer time.AfterFunc(opLimit, p.stop).Stop()
	return p.Player.Do(o)
}

// An again player repeats a rename that failed because another client had moved
// the directory. Linux discovers the move while it holds the lock of all
// renames, which it would need to record the move, and returns ESTALE, for any
// network file system. After a lookup, the rename can succeed.
type again struct {
	model.Player
	times int
}

func (p *again) Do(o model.Op) (model.Result, error) {
	r, err := p.Player.Do(o)
	if o.Kind != model.Rename || r.Err != "ESTALE" {
		return r, err
	}
	p.times++
	for _, path := range []string{o.Path, o.To} {
		if _, err := p.Player.Do(model.Op{Kind: model.Stat, Path: path}); err != nil {
			return r, err
		}
	}
	return p.Player.Do(o)
}

// A wary player looks up a name before it opens it with O_CREAT. With a
// negative entry in its cache, Linux sends CREATE without another lookup, and
// without a size: O_TRUNC then does not truncate a file that another client has
// made meanwhile.
type wary struct{ model.Player }

func (p wary) Do(o model.Op) (model.Result, error) {
	if o.Kind == model.Create || o.Kind == model.Rewrite {
		if r, err := p.Player.Do(model.Op{Kind: model.Stat, Path: o.Path}); err != nil {
			return r, err
		}
	}
	return p.Player.Do(o)
}

// close unmounts all three.
func (v *views) close(t *testing.T) {
	for _, end := range v.ends {
		end()
	}
	require.NoError(t, v.linux.CloseWrite())
	rest, err := io.ReadAll(v.linux)
	require.NoError(t, err)
	require.Zero(t, v.linux.Status(), "%s", rest)
	umount(t, "/mnt")
	for _, m := range v.fuse {
		m.umount()
	}
	for _, m := range v.mounts {
		t.Logf("%s: %d renames done again", m.Name, m.Player.(*again).times)
	}
}

// below returns the mounts, confined to a directory.
func (v *views) below(sub string) []model.Mount {
	var list []model.Mount
	for _, m := range v.mounts {
		list = append(list, model.Mount{Name: m.Name, Player: model.Within(m.Player, sub)})
	}
	return list
}

// clock returns a function that waits until the served file system's times have
// advanced. A client that compares times cannot distinguish two changes at the
// same time.
func (v *views) clock(t *testing.T) func() {
	f, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	if strings.HasPrefix(v.served, "/dev/shm/") {
		f.Close()
		f, err = os.CreateTemp("/dev/shm", "clock-")
		require.NoError(t, err)
		require.NoError(t, os.Remove(f.Name()))
	}
	touched := func() unix.Timespec {
		require.NoError(t, f.Chmod(0o600))
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(int(f.Fd()), &st))
		return st.Ctim
	}
	return func() {
		for was := touched(); touched() == was; {
		}
	}
}

// knownWrong reports an operation that Linux does wrongly while others work.
// With a negative entry in its cache, Linux creates a file without another
// lookup, whatever the options. If a symbolic link exists by then, the server
// replies that the name exists, as knfsd does, and Linux returns ELOOP.
//
// By version 4, a rename of a directory over another object, or the reverse, is
// NFS4ERR_EXIST (RFC 8881, Section 18.26.3), and Linux passes that on if it does
// not know the object.
func knownWrong(t *model.Tree, o model.Op, mount string) bool {
	creates := o.Kind == model.Create && !o.Excl || o.Kind == model.Rewrite
	replaces := o.Kind == model.Rename && t.Exists(o.Path) && t.Exists(o.To) && t.IsDir(o.Path) != t.IsDir(o.To)
	return mount == "linux" && (creates && t.IsLink(o.Path) || replaces && os.Getenv(linuxVersion) != "")
}

// together lets all mounts work in one directory, one operation after another.
func together(t *testing.T, v *views, seed uint64, length time.Duration) {
	const sub = "together"
	require.NoError(t, os.Mkdir(filepath.Join(v.served, sub), 0o755))
	r := &model.Run{
		Seed: seed, Source: model.Anything(seed), Mounts: v.below(sub), Tree: model.NewTree(), Before: v.clock(t),
		Leave: knownWrong, Log: transcript(t),
	}
	require.NoError(t, r.For(length))
	t.Logf("%d operations", r.Done)
	for _, m := range append(v.below(sub), model.Mount{Name: "served", Player: model.Dir(filepath.Join(v.served, sub))}) {
		assert.NoError(t, r.Tree.Compare(m), "all of it, by %s, seed %d", m.Name, seed)
	}
	want := hostDir(v.served).manifest(t, sub)
	for _, m := range v.fuse {
		sameLines(t, want, hostDir(m.point).manifest(t, sub))
	}
	sameLines(t, want, guestDir("/mnt").manifest(t, sub))
}

// apart lets each mount work in a directory of its own, all concurrently.
func apart(t *testing.T, v *views, seed uint64, length time.Duration) {
	var jobs sync.WaitGroup
	for i, m := range v.mounts {
		require.NoError(t, os.Mkdir(filepath.Join(v.served, m.Name), 0o755))
		jobs.Go(func() {
			seed := seed + uint64(i)
			own := model.Mount{Name: m.Name, Player: model.Within(m.Player, m.Name)}
			r := &model.Run{Seed: seed, Source: model.Anything(seed), Mounts: []model.Mount{own}, Tree: model.NewTree()}
			assert.NoError(t, r.For(length))
			t.Logf("%s: %d operations", m.Name, r.Done)
			served := model.Dir(filepath.Join(v.served, m.Name))
			assert.NoError(t, r.Tree.Compare(served), "all of it, of %s, seed %d", m.Name, seed)
		})
	}
	jobs.Wait()
}

// contents lets caching mounts write and read the same files. Each open follows
// the previous close, so that each read must return the bytes written last.
func contents(t *testing.T, v *views, seed uint64, length time.Duration) {
	contentsOf(t, v, seed, length, model.Contents(seed), model.Files())
}

// contentsOf is contents with operations of a source, on files that the given
// operations make.
func contentsOf(t *testing.T, v *views, seed uint64, length time.Duration, source *model.Source, files []model.Op) {
	const sub = "contents"
	require.NoError(t, os.Mkdir(filepath.Join(v.served, sub), 0o755))
	r := &model.Run{
		Seed: seed, Source: source, Mounts: v.below(sub), Tree: model.NewTree(), Before: v.clock(t),
		Log: transcript(t),
	}
	for _, o := range files {
		r.Tree.Do(o)
		_, err := model.Within(model.Dir(v.served), sub).Do(o)
		require.NoError(t, err)
	}
	require.NoError(t, r.For(length))
	t.Logf("%d operations", r.Done)
	assert.NoError(t, r.Tree.Compare(model.Dir(filepath.Join(v.served, sub))), "all of it, seed %d", seed)
}
