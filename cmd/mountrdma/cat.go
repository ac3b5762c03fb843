package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) newCat() *cobra.Command {
	var urls []location
	return &cobra.Command{
		Use:   "cat URL...",
		Short: "Write files to standard output",
		Args:  a.urls(&urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.each(ctx, urls, func(r remote) error { return r.explain(a.cat(ctx, r)) })
		},
	}
}

func (a *app) cat(ctx context.Context, r remote) error {
	f, err := r.fs.Open(ctx, r.rest)
	if err != nil {
		return err
	}
	_, err = f.CopyTo(ctx, a.stdout, 0)
	return err
}
