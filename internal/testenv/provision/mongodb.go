package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// mongoVersion is that of the server of MongoDB's protocol in Java.
	mongoVersion = "1.47.0"

	// compilerPackage is Debian's package of the Java compiler.
	compilerPackage = "openjdk-17-jdk-headless"

	// MongoClass is the program that [Host.MongoDB] compiles. Its arguments are a port, and the files of a certificate and its key.
	MongoClass = "OutriderTestMongo"
)

// mongoProgram starts the server: on a port, and with TLS if files of a certificate and of its key (EC, PKCS #8) are named. Drivers require
// a protocol version that it does not announce, but implements well enough for the tests.
const mongoProgram = `import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;

public class OutriderTestMongo {
    public static void main(String[] args) throws Exception {
        MemoryBackend backend = new MemoryBackend();
        backend.version(new MongoVersion() {
            public List<Integer> getVersionArray() { return List.of(4, 4, 0); }
            public int getWireVersion() { return 9; }
        });
        backend.enableOplog();
        MongoServer server = new MongoServer(backend);
        if (args.length > 1) {
            X509Certificate certificate;
            try (var in = Files.newInputStream(Path.of(args[1]))) {
                certificate = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
            }
            String pem = Files.readString(Path.of(args[2])).replaceAll("-----[^-]+-----", "");
            PKCS8EncodedKeySpec key = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(pem));
            server.enableSsl(KeyFactory.getInstance("EC").generatePrivate(key), null, certificate);
        }
        server.bind("127.0.0.1", Integer.parseInt(args[0]));
        Thread.currentThread().join();
    }
}
`

// mongoFolder is the folder's name in the cache: another program needs another folder.
const mongoFolder = "mongo-java-server-" + mongoVersion + "-2"

// MongoDB has the files that start a server of MongoDB's protocol: one in Java, which keeps everything in memory and has neither
// replica sets nor transactions. A real server is given by its URL.
type MongoDB struct {
	Java string // the java program
	Jars string // the folder of the jars and of [MongoClass]
}

// MongoDB returns the Java runtime and the jars of the server.
func (h Host) MongoDB(ctx context.Context) (MongoDB, error) {
	java, err := h.java(ctx)
	if err != nil {
		return MongoDB{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return MongoDB{}, err
	}
	dir := filepath.Join(cache, mongoFolder)
	if hasMongo(dir) {
		return MongoDB{Java: java, Jars: dir}, nil
	}
	if !h.Install {
		return MongoDB{}, errors.New("no server for MongoDB found: `make test` downloads one with Maven")
	}
	err = fill(dir, func(tmp string) error {
		err := h.maven(ctx, "downloading mongo-java-server "+mongoVersion, tmp,
			artifact{"de.bwaldvogel", "mongo-java-server", mongoVersion}, artifact{"org.slf4j", "slf4j-nop", "2.0.17"})
		if err != nil {
			return err
		}
		return h.compile(ctx, tmp)
	})
	return MongoDB{Java: java, Jars: dir}, err
}

// compile compiles the program into the folder of its jars.
func (h Host) compile(ctx context.Context, dir string) error {
	javac, err := h.findCompiler(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(dir, MongoClass+".java")
	if err := os.WriteFile(source, []byte(mongoProgram), 0o600); err != nil {
		return fmt.Errorf("write the program of the server for MongoDB: %w", err)
	}
	return h.run(ctx, "compiling the program of the server for MongoDB",
		exec.CommandContext(ctx, javac, "--release", "11", "-cp", filepath.Join(dir, "*"), "-d", dir, source))
}

// findCompiler returns the javac program, installed when missing.
func (h Host) findCompiler(ctx context.Context) (string, error) {
	if javac, err := exec.LookPath("javac"); err == nil {
		return javac, nil
	}
	installed, err := h.apt(ctx, compilerPackage)
	if err != nil {
		return "", err
	}
	if !installed {
		return "", errors.New("this needs a Java compiler: install a JDK (javac) and try again")
	}
	return exec.LookPath("javac")
}

func hasMongo(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, MongoClass+".class"))
	return err == nil
}

// MissingMongoDB is [Host.MissingPostgres] for [Host.MongoDB].
func (h Host) MissingMongoDB(ctx context.Context) (missing []string) {
	if cache, err := cacheDir(); err == nil && hasMongo(filepath.Join(cache, mongoFolder)) {
		return nil
	}
	if _, err := findJava(ctx); err != nil && hasApt() {
		missing = append(missing, "a Java runtime: package "+javaPackage+", with apt, "+javaSize)
	}
	if _, err := exec.LookPath("javac"); err != nil && hasApt() {
		missing = append(missing, "a Java compiler: package "+compilerPackage+", with apt, "+compilerSize)
	}
	return append(append(missing, missingMaven()...), "mongo-java-server "+mongoVersion+": from Maven Central"+intoCache()+", "+mongoSize)
}
