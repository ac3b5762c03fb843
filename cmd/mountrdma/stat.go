package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

func (a *app) newStat() *cobra.Command {
	var urls []location
	var json bool
	cmd := &cobra.Command{
		Use:   "stat URL...",
		Short: "Show the attributes of files and directories",
		Long: `Show the attributes that the server has for files and directories. A symbolic link
at the end of a URL is not followed. --json prints one object per line and URL,
like that of "mountrdma ls --json".`,
		Args: a.parseURLs(&urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.forEachURL(ctx, urls, func(r remote) error { return a.showAttributes(ctx, r, json) })
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON objects")
	return cmd
}

var typeNames = map[nfs3.Type]string{
	nfs3.TypeReg: "regular file", nfs3.TypeDir: "directory", nfs3.TypeLnk: "symbolic link",
	nfs3.TypeBlk: "block device", nfs3.TypeChr: "character device", nfs3.TypeSock: "socket", nfs3.TypeFIFO: "FIFO",
}

func (a *app) showAttributes(ctx context.Context, r remote, json bool) error {
	node, err := r.fs.Lstat(ctx, r.rest)
	if err != nil {
		return r.explainError(err)
	}
	at := &node.Attr
	kind, target := typeNames[at.Type], ""
	if at.Type == nfs3.TypeLnk {
		res, err := r.fs.Client().ReadLink(ctx, node.Handle)
		if err != nil {
			return r.explainError(err)
		}
		target = string(res.Path)
		kind = fmt.Sprintf("%s to %q", kind, target)
	}
	if json {
		return printJSON(a.stdout, newObjectInfo(r.location, r.lastName(), &lsDetails{target: target, hasAttr: true, attr: *at}))
	}
	_, err = fmt.Fprintf(a.stdout, `%v
    type  %s
    size  %d bytes, %d on disk
    mode  %04o %s
   links  %d
   owner  user %d, group %d
      id  file %d of file system %#x
  handle  %x
  access  %s
  modify  %s
  change  %s
`,
		r.location, kind, at.Size, at.Used, at.Mode, modeString(at), at.Nlink, at.UID, at.GID,
		at.FileID, at.FSID, []byte(node.Handle), formatTime(at.Atime), formatTime(at.Mtime), formatTime(at.Ctime))
	return err
}

func formatTime(t nfs3.Time) string { return goTime(t).Format(time.RFC3339Nano) }
