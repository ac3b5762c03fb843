package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// version is set by the linker (see Makefile).
var version string

func main() {
	program := run
	if filepath.Base(os.Args[0]) == helperName {
		program = runHelper
	}
	os.Exit(program(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := newApp(stdout, stderr)
	defer a.closeSessions()
	return cli.Run(ctx, a.newRoot(), expandFindFlags(args), stdout, stderr)
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mountrdma SERVER:/EXPORT MOUNTPOINT [-o OPTIONS]",
		Short: "Mount NFS servers over RDMA, or use them without a mount; no RDMA card needed",
		Long: `Mount NFS servers over RPC-over-RDMA (iWARP over TCP), or use them without a
mount. No RDMA card is needed. The server may be nfsrdmad, the Linux kernel's
server on siw or a card, or another. The mount is a FUSE file system.

A URL is nfs://SERVER[:PORT]/EXPORT/PATH, or SERVER[:PORT]:/EXPORT/PATH. PORT is
20049 by default, and 2049 with --proto tcp. IPv6 addresses must be in brackets.
After nfs://, %XX is the byte with these two hexadecimal digits: %25 for %, %3F for
a question mark, and so on for names that are not UTF-8. A local file whose name
contains :/ needs ./ before it. EXPORT is the longest of the server's exports that
is a prefix of the path.

The program tries MOUNT on the NFS connection, then over TCP: at the port that
rpcbind (port 111) returns, then on port 20048. ?mountport=N after a URL sets the
port, and ?mountport=N,mounthost=H the host too.`,
		Example: `  mountrdma server:/data /mnt -o ro,soft
  mountrdma umount /mnt
  mountrdma ls -l nfs://server/data
  mountrdma cp -r nfs://server/data/project .
  mountrdma df -h nfs://server
  mountrdma cp 'a file' 'nfs://[2001:db8::1]:20049/data/a file?mountport=2049'
  mountrdma info server`,
	}
	a.addFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("sec", cobra.FixedCompletions(a.sec.Words(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is missing
	a.addMountCommand(root)
	root.AddCommand(
		a.newUmount(), a.newMountStats(), a.newLs(), a.newStat(), a.newCat(), a.newCp(), a.newRm(), a.newMkdir(),
		a.newMv(), a.newLn(), a.newChmod(), a.newDf(), a.newDu(), a.newFind(),
		a.newInfo(), a.newDoctor(), a.newPing(), a.newBench(), a.newBridge(), a.newPingpong(), a.newDiscover(), a.newTop(),
		cli.NewCompletion("mountrdma"),
	)
	cli.AddVersion(root, buildinfo.Line("mountrdma", version))
	for _, c := range root.Commands() {
		if strings.Contains(c.Use, "URL") || c.Name() == "cp" {
			c.ValidArgsFunction = a.completeURL
		}
		if strings.Contains(c.Use, "MOUNTPOINT") {
			c.ValidArgsFunction = completeMountPoint
		}
	}
	return root
}
