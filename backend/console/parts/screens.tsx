// Loads screens when they are first opened, and shows an error if one cannot be loaded or fails while it is drawn. Invariant: if a screen
// fails, the navigation still works, and the message says what failed and what to do.
import { Skeleton } from "./common.tsx";
import { Button } from "./controls.tsx";
import { Component, type ComponentChildren, type FunctionComponent } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { whileLoading } from "../state/loaded.ts";
import { route } from "../state/route.ts";

type Loader<P> = () => Promise<FunctionComponent<P>>;

const RELOADED = "atherops.reloaded";
const RELOAD_AGAIN_MS = 60_000;

/**
 * After an upgrade, a file of the earlier release no longer exists; the reloaded page refers to the new one. Returns false if that was just
 * tried.
 */
function reloadOnce(): boolean {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOAD_AGAIN_MS) return false;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
  return true;
}

/** A component whose file is loaded when it is first drawn, or before that by `preload`. */
export type Lazy<P> = FunctionComponent<P> & { preload(): void };

export function lazy<P extends object>(load: Loader<P>): Lazy<P> {
  let loaded: FunctionComponent<P> | undefined;
  const read = async (): Promise<void> => void (loaded = await load());
  function LazyComponent(props: P) {
    const [, setLoaded] = useState(loaded !== undefined);
    const [error, setError] = useState<Error | undefined>(undefined);
    const { screen, id } = route.value;
    useLayoutEffect(() => {
      if (loaded) return;
      // The user opens another screen, which is in the same file. A browser does not ask again for a module that it could not load.
      if (error) return location.reload();
      void whileLoading(
        read().then(
          () => setLoaded(true),
          (failure: Error) => {
            if (!reloadOnce()) setError(failure);
          },
        ),
      );
    }, [screen, id]);
    if (loaded) {
      const Loaded = loaded;
      return <Loaded {...props} />;
    }
    if (error) return <Failure error={error} />;
    return (
      <div class="loading">
        <Skeleton />
      </div>
    );
  }
  return Object.assign(LazyComponent, { preload: () => void read().catch(() => undefined) });
}

interface BoundaryProps {
  /** Identifies the content; when it changes, drawing is tried again. */
  readonly of: string;
  readonly children: ComponentChildren;
}

export class Boundary extends Component<BoundaryProps, { error: Error | undefined }> {
  override state = { error: undefined as Error | undefined };

  static override getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override componentDidUpdate({ of }: BoundaryProps): void {
    if (of !== this.props.of && this.state.error) this.setState({ error: undefined });
  }

  override render(): ComponentChildren {
    return this.state.error ? <Failure error={this.state.error} /> : this.props.children;
  }
}

function Failure({ error }: { error: Error }) {
  return (
    <section class="center" aria-label="Failure">
      <div class="card" role="alert">
        <h1>This screen failed</h1>
        <p>Reload the page. If it fails again, send this message to your administrator:</p>
        <pre tabIndex={0}>{`${error.name}: ${error.message}`}</pre>
        <Button class="primary" onClick={() => location.reload()} text="Reload" />
      </div>
    </section>
  );
}
