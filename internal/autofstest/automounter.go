package autofstest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An Automounter is a daemon for direct autofs mounts. It mounts the directory ../backing/NAME on
// NAME. The processes of its group do not trigger automounts.
type Automounter struct {
	t     *testing.T
	dir   string // contains the mount points
	group int
	pipe  [2]*os.File // the kernel writes its requests
	ended chan struct{}

	mu       sync.Mutex
	points   map[uint32]string   // by device number
	controls map[string]*os.File // directories for ioctl, opened before anything was mounted there
	requests []string
	held     map[string]chan struct{} // a request is not answered before the channel is closed
}

// New makes automounts in dir. The process leaves its
// group until the end of the test, and can then trigger them.
func New(t *testing.T, dir string, names ...string) *Automounter {
	t.Helper()
	f := &Automounter{
		t: t, dir: dir, group: unix.Getpgrp(), ended: make(chan struct{}), points: make(map[uint32]string),
		controls: make(map[string]*os.File), held: make(map[string]chan struct{}),
	}
	var err error
	f.pipe[0], f.pipe[1], err = os.Pipe()
	require.NoError(t, err)
	for _, name := range names {
		f.addMount(name)
	}
	require.NoError(t, unix.Setpgid(0, 0))
	go f.serve()
	t.Cleanup(f.close)
	return f
}

func (f *Automounter) addMount(name string) {
	f.t.Helper()
	point := filepath.Join(f.dir, name)
	require.NoError(f.t, os.Mkdir(point, 0o755))
	options := fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", f.pipe[1].Fd(), f.group)
	require.NoError(f.t, unix.Mount("fake", point, "autofs", 0, options))
	control, err := os.Open(point)
	require.NoError(f.t, err)
	var st unix.Stat_t
	require.NoError(f.t, unix.Fstat(int(control.Fd()), &st))
	f.points[uint32(st.Dev)], f.controls[name] = name, control
}

// Requests of the kernel (linux/auto_fs.h), and the ioctls that answer them.
const (
	autofsPacketLen = 304
	autofsReady     = 0x9360
	autofsFail      = 0x9361
)

func (f *Automounter) serve() {
	defer close(f.ended)
	packet := make([]byte, autofsPacketLen)
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		if _, err := f.pipe[0].Read(packet); err != nil {
			return
		}
		token, dev := binary.NativeEndian.Uint32(packet[8:]), binary.NativeEndian.Uint32(packet[12:])
		answers.Go(func() { f.answer(token, dev) })
	}
}

func (f *Automounter) answer(token, dev uint32) {
	f.mu.Lock()
	name := f.points[dev]
	f.requests = append(f.requests, name)
	control, held := f.controls[name], f.held[name]
	f.mu.Unlock()
	if held != nil {
		<-held
	}
	result := uint(autofsReady)
	if f.run("mount", "--bind", filepath.Join(f.dir, "..", "backing", name), filepath.Join(f.dir, name)) != nil {
		result = autofsFail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.NoError(f.t, unix.IoctlSetInt(int(control.Fd()), result, int(token)))
}

// run runs a command that triggers nothing.
func (f *Automounter) run(args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: f.group}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Expire unmounts what has been mounted on name.
func (f *Automounter) Expire(name string) {
	f.t.Helper()
	require.NoError(f.t, f.run("umount", filepath.Join(f.dir, name)))
}

// Hold keeps requests for name unanswered until the function that it returns is called.
func (f *Automounter) Hold(name string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(chan struct{})
	f.held[name] = held
	return func() { close(held) }
}

// Count returns the number of requests for name.
func (f *Automounter) Count(name string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r == name {
			n++
		}
	}
	return n
}

// Total returns the number of requests.
func (f *Automounter) Total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *Automounter) close() {
	f.mu.Lock()
	for _, control := range f.controls {
		control.Close()
	}
	f.mu.Unlock()
	for name := range f.controls {
		_ = f.run("umount", "--lazy", filepath.Join(f.dir, name)) // what is mounted on it
		_ = f.run("umount", "--lazy", filepath.Join(f.dir, name))
	}
	f.pipe[1].Close()
	<-f.ended
	f.pipe[0].Close()
	assert.NoError(f.t, unix.Setpgid(0, f.group))
}
