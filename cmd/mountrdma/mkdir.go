package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) newMkdir() *cobra.Command {
	var urls []location
	var parents bool
	cmd := &cobra.Command{
		Use:   "mkdir [-p] URL...",
		Short: "Create directories",
		Args:  a.parseURLs(&urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.forEachURL(ctx, urls, func(r remote) error { return r.explainError(a.makeDir(ctx, r, parents)) })
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "create missing parents; an existing directory is no error")
	return cmd
}

func (a *app) makeDir(ctx context.Context, r remote, parents bool) error {
	mode := 0o777 &^ a.umask
	if parents {
		return r.fs.MkdirAll(ctx, r.rest, mode)
	}
	return r.fs.Mkdir(ctx, r.rest, mode)
}
