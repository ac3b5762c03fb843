package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	agentPort = 7777          // guest-agent's port in the guest
	readyWord = "GUEST-READY" // init prints it when knfsd serves
	readyPoll = 50 * time.Millisecond
)

// guestEthernet is the guest's address on Options.Ethernet, in a network of 256. knfsd
// answers there too.
const guestEthernet = "10.0.4.15"

// Options describe the guest to boot.
type Options struct {
	Dir     string // as printed by guest/build
	Forward []int  // the guest's TCP ports, for Addr
	Siw     string // siw parameters, "name=value,..."; none by default

	// Processors is the number of processors; 0 means one, and with INTEROP_SOAK two.
	// On a busy machine, emulated processors spend most time waiting for one another's locks.
	Processors int

	// Counted gives the guest one processor, whose clock counts instructions, a
	// nanosecond for each: times in the guest do not depend on the host.
	Counted bool

	// Ethernet, if not nil, is a TAP device that becomes the guest's eth2, with
	// the address guestEthernet and rxe, the kernel's software RoCE. The device
	// carries the guest's frames unchanged.
	Ethernet *os.File
}

// A Guest is a running virtual machine.
type Guest struct {
	proc    *Process
	ports   map[int]int // guest's port to host's
	scratch string      // a directory: console and qemu's messages
}

// The emulated processor sometimes stops forever in the kernel's first steps,
// before any output. Boot starts such a guest again.
const (
	maxBoots = 4
	bootTime = time.Minute // many times the boot time, even on a busy machine
)

// BuildGuest runs guest/build, whose path script is, with more environment variables, and
// returns the guest's directory.
func BuildGuest(ctx context.Context, script string, env ...string) (dir string, err error) {
	build := exec.CommandContext(ctx, script)
	build.Env, build.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", build, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Boot starts a guest and returns when it is ready: network, siw and knfsd are
// up. ctx bounds only the boot; Close ends the guest. The kernel chooses the
// host's ports, so several guests can run at once.
func Boot(ctx context.Context, o Options) (*Guest, error) {
	for attempt := 1; ; attempt++ {
		g, err := bootOnce(ctx, o)
		if err == nil || attempt == maxBoots || ctx.Err() != nil {
			return g, err
		}
	}
}

func bootOnce(ctx context.Context, o Options) (*Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	scratch, err := os.MkdirTemp("", "nfsrdma-guest-")
	if err != nil {
		return nil, err
	}
	g := &Guest{scratch: scratch}
	if err := g.bootVM(ctx, o); err != nil {
		err = fmt.Errorf("guest of %s: %w\n%s", o.Dir, err, g.Console())
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Guest) bootVM(ctx context.Context, o Options) error {
	log, err := os.Create(g.scratchFile("qemu"))
	if err != nil {
		return err
	}
	defer log.Close()
	// qemu's control channel is its standard input and output.
	in, toQemu, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer toQemu.Close()
	fromQemu, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fromQemu.Close()
	defer out.Close()

	cmd := exec.Command("qemu-system-x86_64", qemuArguments(o, g.scratchFile("console"))...)
	if o.Ethernet != nil {
		cmd.ExtraFiles = []*os.File{o.Ethernet} // descriptor 3
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, log
	if g.proc, err = StartProcess(cmd); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { fromQemu.Close() })
	defer stop()
	out.Close() // so that this channel closes when qemu exits
	control, err := newQMP(fromQemu, toQemu)
	if err != nil {
		return err
	}
	if g.ports, err = control.listForwards(); err != nil {
		return err
	}
	return g.waitReady(ctx)
}

// qemuArguments returns qemu's arguments. The processor has the instructions for the
// kernel's checksums, for Go's hashes and ciphers, and for random numbers. Hardware
// virtualization is not used, because most test machines lack it.
func qemuArguments(o Options, console string) []string {
	net0 := fmt.Sprintf("user,id=n0,hostfwd=tcp:127.0.0.1:0-:%d", agentPort)
	for _, p := range o.Forward {
		net0 += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:0-:%d", p)
	}
	words := "console=ttyS0 quiet panic=-1 mitigations=off nokaslr audit=0 selinux=0 apparmor=0 " +
		"tsc=reliable no_timer_check cryptomgr.notests random.trust_cpu=on"
	if o.Siw != "" {
		words += " guest.siw=" + o.Siw
	}
	n := o.Processors
	switch {
	case n > 0:
	case os.Getenv("INTEROP_SOAK") != "":
		n = 2
	default:
		n = 1
	}
	processors := []string{"-accel", "tcg,thread=multi", "-smp", strconv.Itoa(n)}
	if o.Counted {
		processors = []string{"-accel", "tcg,thread=single", "-icount", "shift=0", "-smp", "1"}
	}
	args := []string{
		"-machine", "q35", "-m", "2048",
		"-cpu", "qemu64,+ssse3,+sse4.1,+sse4.2,+pclmulqdq,+popcnt,+aes,+rdrand",
		"-nodefaults", "-no-reboot", "-display", "none",
		"-serial", "file:" + console, "-qmp", "stdio",
		"-netdev", net0, "-device", "virtio-net-pci,netdev=n0,romfile=",
		"-netdev", "user,id=n1,net=10.0.3.0/24", "-device", "virtio-net-pci,netdev=n1,romfile=",
		"-kernel", filepath.Join(o.Dir, "vmlinux"),
		"-initrd", filepath.Join(o.Dir, "initramfs.cpio"),
		"-append", words,
	}
	args = append(args, processors...)
	if o.Ethernet != nil {
		args = append(args, "-netdev", "tap,id=n2,fd=3", "-device", "virtio-net-pci,netdev=n2,romfile=")
	}
	return args
}

func (g *Guest) waitReady(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		console, err := os.ReadFile(g.scratchFile("console"))
		if err == nil && strings.Contains(string(console), readyWord) {
			return nil
		}
		select {
		case <-tick.C:
		case <-g.proc.Done():
			return errors.New("qemu ended")
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", context.Cause(ctx))
		}
	}
}

func (g *Guest) scratchFile(name string) string { return filepath.Join(g.scratch, name) }

// Addr returns the host's address for one of the guest's TCP ports. The port must be
// among Options.Forward.
func (g *Guest) Addr(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(g.ports[port]))
}

// Console returns the output so far from the guest's kernel and init, and from qemu
// itself.
func (g *Guest) Console() string {
	var all strings.Builder
	for _, name := range []string{"console", "qemu"} {
		text, _ := os.ReadFile(g.scratchFile(name)) // missing when the boot failed early
		all.Write(text)
	}
	return all.String()
}

// Ended reports whether the guest has ended, for example because its kernel has
// crashed.
func (g *Guest) Ended() bool {
	select {
	case <-g.proc.Done():
		return true
	default:
		return false
	}
}

// Close ends the guest, as if by cutting its power, and removes its files.
func (g *Guest) Close() {
	if g.proc != nil {
		g.proc.Kill()
	}
	_ = os.RemoveAll(g.scratch)
}
