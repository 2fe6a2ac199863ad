package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// copyDependencies is the goal of Maven's dependency plugin that downloads
// artifacts with all that they need.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

// artifact is a Maven artifact.
type artifact struct{ group, id, version string }

// maven downloads the artifacts and their dependencies into dir.
func (h Host) maven(ctx context.Context, what, dir string, artifacts ...artifact) error {
	mvn, err := h.findMaven(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	project, err := os.MkdirTemp("", "outrider-maven-")
	if err != nil {
		return fmt.Errorf("%s: make a project folder: %w", what, err)
	}
	defer func() { _ = os.RemoveAll(project) }()
	pom := filepath.Join(project, "pom.xml")
	if err := os.WriteFile(pom, []byte(projectFile(artifacts)), 0o600); err != nil {
		return fmt.Errorf("%s: write the project file: %w", what, err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-B", "-q", "-Dstyle.color=never", "-f", pom, copyDependencies,
		"-DincludeScope=runtime", "-DoutputDirectory="+dir)
	return h.run(ctx, what, cmd)
}

// findMaven returns the mvn program, installed when missing.
func (h Host) findMaven(ctx context.Context) (string, error) {
	if mvn, err := exec.LookPath("mvn"); err == nil {
		return mvn, nil
	}
	installed, err := h.apt(ctx, "maven", javaPackage)
	if err != nil {
		return "", err
	}
	if !installed {
		return "", errors.New("this needs Maven: install it (mvn) and try again")
	}
	return exec.LookPath("mvn")
}

// projectFile returns a Maven project that depends on the artifacts.
func projectFile(artifacts []artifact) string {
	var b strings.Builder
	b.WriteString(`<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>outrider</groupId>
  <artifactId>testenv</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
`)
	for _, a := range artifacts {
		fmt.Fprintf(&b, "    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n",
			a.group, a.id, a.version)
	}
	b.WriteString("  </dependencies>\n</project>\n")
	return b.String()
}
