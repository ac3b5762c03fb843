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
	sharedGuest(t)
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
	d := startDaemon(t, "--no-root-squash")
	t.Run("coherent", func(t *testing.T) {
		w := mountThrice(t, d, coherent)
		t.Run("together", func(t *testing.T) { workTogether(t, w, seed, length*5/8) })
		t.Run("apart", func(t *testing.T) { workApart(t, w, seed, length/8) })
		w.closeViews(t)
	})
	t.Run("cached", func(t *testing.T) {
		w := mountThrice(t, d)
		workOnContents(t, w, seed, length/4)
		w.closeViews(t)
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

// mountViews holds three mounts of one served directory.
type mountViews struct {
	served string
	fuse   [2]*fuseMount
	linux  *Session // guestwork model in the guest
	mounts []model.Mount
	ends   []func() // end the players on this host's mounts
}

// mountThrice mounts d three times.
func mountThrice(t *testing.T, d *daemon, options ...string) *mountViews {
	s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
	return windowsOf(t, d.dir, [2]mountServer{s, s}, options, options)
}

// windowsOf mounts a served directory through each shop, and by Linux.
func windowsOf(t *testing.T, served string, shops [2]mountServer, options, linuxOptions []string) *mountViews {
	v := &mountViews{served: served}
	for i := range v.fuse {
		m := shops[i].mountFUSE(t, options...)
		v.fuse[i] = m
		v.addFUSE(t, i)
	}
	s := shops[0].guestSite
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma", linuxOptions...))
	var err error
	v.linux, err = sharedGuest(t).Open(t.Context(), "exec guestwork model /mnt")
	require.NoError(t, err)
	t.Cleanup(v.linux.Close)
	v.addMount("linux", v.linux, v.linux.Close)
	linux := v.mounts[len(v.mounts)-1].Player.(*retryingPlayer)
	linux.Player = lookupPlayer{linux.Player}
	return v
}

// addFUSE adds a player on a mount of this host.
func (v *mountViews) addFUSE(t *testing.T, i int) {
	m := v.fuse[i]
	// On SIGQUIT, a hanging mountrdma prints its goroutines.
	v.addMount("fuse"+strconv.Itoa(i), v.startPlayer(t, m.point), func() { m.proc.Signal(syscall.SIGQUIT) })
}

func (v *mountViews) addMount(name string, rw io.ReadWriter, stop func()) {
	v.mounts = append(v.mounts, model.Mount{Name: name, Player: &retryingPlayer{Player: timeoutPlayer{model.NewRemote(rw), stop}}})
}

// startPlayer starts guestwork in a directory of this host, most often a mount. It
// is a process because a hanging process can be killed.
func (v *mountViews) startPlayer(t *testing.T, point string) io.ReadWriter {
	fromIt, out, err := os.Pipe()
	require.NoError(t, err)
	in, toIt, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(programPath("guestwork"), "model", point)
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

// A timeoutPlayer stops a player that does not answer.
type timeoutPlayer struct {
	model.Player
	stop func()
}

func (p timeoutPlayer) Do(o model.Op) (model.Result, error) {
	defer time.AfterFunc(opLimit, p.stop).Stop()
	return p.Player.Do(o)
}

// A retryingPlayer repeats a rename that failed because another client had moved
// the directory. Linux discovers the move while it holds the lock of all
// renames, which it would need to record the move, and returns ESTALE, for any
// network file system. After a lookup, the rename can succeed.
type retryingPlayer struct {
	model.Player
	times int
}

func (p *retryingPlayer) Do(o model.Op) (model.Result, error) {
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

// A lookupPlayer looks up a name before it opens it with O_CREAT. With a
// negative entry in its cache, Linux sends CREATE without another lookup, and
// without a size: O_TRUNC then does not truncate a file that another client has
// made meanwhile.
type lookupPlayer struct{ model.Player }

func (p lookupPlayer) Do(o model.Op) (model.Result, error) {
	if o.Kind == model.Create || o.Kind == model.Rewrite {
		if r, err := p.Player.Do(model.Op{Kind: model.Stat, Path: o.Path}); err != nil {
			return r, err
		}
	}
	return p.Player.Do(o)
}

// closeViews unmounts all three.
func (v *mountViews) closeViews(t *testing.T) {
	for _, end := range v.ends {
		end()
	}
	require.NoError(t, v.linux.CloseWrite())
	rest, err := io.ReadAll(v.linux)
	require.NoError(t, err)
	require.Zero(t, v.linux.Status(), "%s", rest)
	unmountInGuest(t, "/mnt")
	for _, m := range v.fuse {
		m.unmountFUSE()
	}
	for _, m := range v.mounts {
		t.Logf("%s: %d renames done again", m.Name, m.Player.(*retryingPlayer).times)
	}
}

// confineTo returns the mounts, confined to a directory.
func (v *mountViews) confineTo(sub string) []model.Mount {
	var list []model.Mount
	for _, m := range v.mounts {
		list = append(list, model.Mount{Name: m.Name, Player: model.Within(m.Player, sub)})
	}
	return list
}

// newClock returns a function that waits until the served file system's times have
// advanced. A client that compares times cannot distinguish two changes at the
// same time.
func (v *mountViews) newClock(t *testing.T) func() {
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
// Over NFSv4, a rename of a directory over another object, or the reverse, is
// NFS4ERR_EXIST (RFC 8881, Section 18.26.3), and Linux passes that on if it does
// not know the object.
func knownWrong(t *model.Tree, o model.Op, mount string) bool {
	creates := o.Kind == model.Create && !o.Excl || o.Kind == model.Rewrite
	replaces := o.Kind == model.Rename && t.Exists(o.Path) && t.Exists(o.To) && t.IsDir(o.Path) != t.IsDir(o.To)
	return mount == "linux" && (creates && t.IsLink(o.Path) || replaces && os.Getenv(linuxVersion) != "")
}

// workTogether lets all mounts work in one directory, one operation after another.
func workTogether(t *testing.T, v *mountViews, seed uint64, length time.Duration) {
	const sub = "together"
	require.NoError(t, os.Mkdir(filepath.Join(v.served, sub), 0o755))
	r := &model.Run{
		Seed: seed, Source: model.Anything(seed), Mounts: v.confineTo(sub), Tree: model.NewTree(), Before: v.newClock(t),
		Leave: knownWrong, Log: openTranscript(t),
	}
	require.NoError(t, r.For(length))
	t.Logf("%d operations", r.Done)
	for _, m := range append(v.confineTo(sub), model.Mount{Name: "served", Player: model.Dir(filepath.Join(v.served, sub))}) {
		assert.NoError(t, r.Tree.Compare(m), "all of it, by %s, seed %d", m.Name, seed)
	}
	want := hostDir(v.served).readManifest(t, sub)
	for _, m := range v.fuse {
		sameLines(t, want, hostDir(m.point).readManifest(t, sub))
	}
	sameLines(t, want, guestDir("/mnt").readManifest(t, sub))
}

// workApart lets each mount work in a directory of its own, all concurrently.
func workApart(t *testing.T, v *mountViews, seed uint64, length time.Duration) {
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

// workOnContents lets caching mounts write and read the same files. Each open follows
// the previous close, so that each read must return the bytes written last.
func workOnContents(t *testing.T, v *mountViews, seed uint64, length time.Duration) {
	contentsOf(t, v, seed, length, model.Contents(seed), model.Files())
}

// contentsOf is contents with operations of a source, on files that the given
// operations make.
func contentsOf(t *testing.T, v *mountViews, seed uint64, length time.Duration, source *model.Source, files []model.Op) {
	const sub = "contents"
	require.NoError(t, os.Mkdir(filepath.Join(v.served, sub), 0o755))
	r := &model.Run{
		Seed: seed, Source: source, Mounts: v.confineTo(sub), Tree: model.NewTree(), Before: v.newClock(t),
		Log: openTranscript(t),
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
